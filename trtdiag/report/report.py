"""The report of one analysis, in every format."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from trtdiag.analysis.finding import Finding, Severity
from trtdiag.analysis.result import Analysis
from trtdiag.errors import UserError
from trtdiag.report.html import html_page
from trtdiag.report.json_report import json_report
from trtdiag.report.notebook import plain_text, snippet
from trtdiag.report.sarif import RuleMeta, sarif_report
from trtdiag.report.save import write_atomically
from trtdiag.report.verdict import verdict


@dataclass(frozen=True, repr=False)
class Report:
    """What an analysis found, ready to read.

    Attributes:
        analysis: Every fact and finding.
        rules: The rules that could have fired, for SARIF.
        command: How the report was asked for; made up from the program where empty.
        layout: How the graph is laid out: ``auto`` (``dot`` where installed), ``dot`` or ``builtin``.
    """

    analysis: Analysis
    rules: tuple[RuleMeta, ...] = ()
    command: str = ""
    layout: str = "auto"

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

    def to_json(self) -> str:
        """The report as JSON, see ``report-1.schema.json``."""
        return json_report(self.analysis)

    def to_sarif(self) -> str:
        """The report as SARIF 2.1.0; addresses of files under the working directory are relative to it."""
        return sarif_report(self.analysis, self.rules)

    def to_html(self) -> str:
        """The report as one self-contained page."""
        return html_page(self.analysis, self.to_json(), command=self.command, layout=self.layout)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report in the format of the suffix (``.html``, ``.json``, ``.sarif``), whole or not at all.

        Raises:
            UserError: The suffix is another, or the place cannot be written.
        """
        place = Path(path)
        suffix = place.suffix.lower()
        if suffix == ".html":
            text = self.to_html()
        elif suffix == ".json":
            text = self.to_json()
        elif suffix == ".sarif":
            text = self.to_sarif()
        else:
            raise UserError(
                f"no report format for {str(place)!r}",
                because=f"the suffix is {suffix!r}" if suffix else "the name has no suffix",
                fix="end the name in .html, .json or .sarif",
                reference="report-format-unknown",
            )
        write_atomically(place, text)
        return place

    def __repr__(self) -> str:
        return plain_text(self.analysis)

    def _repr_html_(self) -> str:
        return snippet(self.analysis)
