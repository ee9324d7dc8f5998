"""The report of one analysis, in every format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from trtdiag.analysis.finding import Finding, Severity
from trtdiag.analysis.result import Analysis
from trtdiag.analysis.rule import Rule
from trtdiag.arguments import instance, keep_checked, one_of, path_or, text
from trtdiag.report.comparison import compared
from trtdiag.report.drawing.layout import ENGINES
from trtdiag.report.formats import Rendering, Saveable
from trtdiag.report.json_report import report_json
from trtdiag.report.notebook import plain_text, snippet
from trtdiag.report.page import named_page
from trtdiag.report.saved import SavedReport, read_report
from trtdiag.report.shown_paths import with_short_paths
from trtdiag.report.verdict import verdict
from trtdiag.report.view_build import report_view

_LAYOUT = one_of(*ENGINES)


@dataclass(frozen=True, repr=False)
class Report(Saveable):
    """What an analysis found, ready to read.

    Attributes:
        analysis: Every fact and finding.
        rules: The rules that could have fired, for SARIF.
        command: How the report was asked for; made up from the program and its options where empty.
        layout: How the graph is laid out: ``auto`` (``dot`` where installed), ``dot`` or ``builtin``.
        comparison: What changed since an earlier report, see ``compare``.
    """

    analysis: Analysis
    rules: tuple[Rule, ...] = ()
    command: str = ""
    layout: str = "auto"
    comparison: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UserError: ``wrong-argument``, ``wrong-option``.
        """
        keep_checked(self, analysis=instance(Analysis, how="make a report with trtdiag.analyze"), layout=_LAYOUT)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, in the order of their ids."""
        return self.analysis.findings

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop a compilation or make results wrong."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that make it slower, larger or narrower than asked."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)

    @property
    def verdict(self) -> str:
        """How the analysis ended, in one line."""
        return verdict(self.analysis).text

    def compare(self, earlier: str | os.PathLike[str] | Report | SavedReport, *, name: str | None = None) -> Report:
        """The same report with what changed since an earlier one: findings by fingerprint, engines, symbols.

        Args:
            earlier: A file that ``--json`` wrote, or a report.
            name: How to name it; by its file or program where not given.

        Raises:
            UserError: ``report-not-readable``; ``wrong-argument``.
        """
        path_or(Report, SavedReport)("earlier", earlier)
        if isinstance(earlier, (Report, SavedReport)):
            before, plain = earlier.body, f"the report on {earlier.body['program']['label']}"
        else:
            before, plain = read_report(earlier).body, os.fspath(earlier)
        told = plain if name is None else text("name", name)
        return replace(self, comparison=compared(before, self.body, told))

    @cached_property
    def body(self) -> dict[str, Any]:
        """The report in plain lists and dicts that fit the schema, without its page and comparison."""
        return report_json(self.analysis)

    @cached_property
    def rendering(self) -> Rendering:
        """The report in every format."""
        body = {**self.body, "comparison": with_short_paths(self.comparison)}
        view = report_view(self.analysis, command=self.command, layout=self.layout, comparison=self.comparison)
        return Rendering(body, named_page(view, self.analysis.program.words), self.rules)

    def to_json(self) -> str:
        """The report as JSON, see ``report-1.schema.json``."""
        return self.rendering.text("json")

    def to_sarif(self) -> str:
        """The report as SARIF 2.1.0; addresses of files are relative to the repository."""
        return self.rendering.text("sarif")

    def to_markdown(self) -> str:
        """The report as Markdown for a pull request."""
        return self.rendering.text("markdown")

    def to_html(self) -> str:
        """The report as one self-contained page."""
        return self.rendering.text("html")

    def __repr__(self) -> str:
        return plain_text(self.analysis, self.comparison)

    def _repr_html_(self) -> str:
        return snippet(self.analysis, self.comparison)
