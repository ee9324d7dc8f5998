"""The formats of a report, Markdown among them: each is written from the JSON body and the page's view."""

from __future__ import annotations

import os
import re
import tempfile
import webbrowser
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtdiag.analysis.rule import Rule
from trtdiag.arguments import checked, path
from trtdiag.report.comparison import Body
from trtdiag.report.format_names import format_of, format_unknown
from trtdiag.report.html import html_page
from trtdiag.report.page import Part
from trtdiag.report.sarif import sarif_log, sarif_text
from trtdiag.report.sarif_places import repository_root
from trtdiag.report.save import write_atomically
from trtdiag.report.saved_page import page_json
from trtdiag.report.shown_paths import short_paths
from trtdiag.report.strict_json import Json, json_text
from trtdiag.report.templates import plain_templates
from trtdiag.wording import one_line

_MOST_FINDINGS = 25
_MOST_ROWS = 12
_LONGEST_CHARS = 300
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~!&@$])")


def markdown_text(view: Part) -> str:
    """Verdict, what changed, findings, what splits the engines, what was not checked; names are escaped."""
    environment = plain_templates()
    environment.filters |= {"plain": _plain, "code": _code}
    told = environment.get_template("report.md.j2").render(
        view=view, findings=list(_walk(view["findings"])), most_findings=_MOST_FINDINGS, most_rows=_MOST_ROWS
    )
    return told.rstrip() + "\n"


def _walk(findings: Iterable[Part]) -> Iterator[Part]:
    for each in findings:
        yield each
        yield from _walk(each["caused"])


def _plain(text: str) -> str:
    """Text in which nothing is markup, nor calls anybody; paths below the working directory relative to it."""
    return _MARKS.sub(r"\\\1", one_line(short_paths(text), _LONGEST_CHARS))


def _code(text: str) -> str:
    """A name in code style; a table would still end a cell at a bar."""
    flat = one_line(short_paths(text), _LONGEST_CHARS).replace("`", "'").replace("|", "\\|")
    return f"`{flat}`" if flat else ""


_NUMBERED = re.compile(r"(.+)_(0|[1-9][0-9]{0,8})", re.DOTALL | re.ASCII)


def with_short_names(report: dict[str, Any]) -> dict[str, Any]:
    """The report with ``add`` for each op of an engine that is called after the last: ``add``, ``add_1``, ``add_2``.

    Other names stand behind ``=``.  The page's script takes it back where the report is saved.
    """
    partition = report["partition"]
    if partition is None:
        return report
    following: dict[str, int] = {}
    segments = [{**each, "ops": _short(each["ops"], following)} for each in partition["segments"]]
    return {**report, "partition": {**partition, "segments": segments}}


def _short(names: Iterable[str], following: dict[str, int]) -> list[str]:
    told = []
    for name in names:
        numbered = _NUMBERED.fullmatch(name)
        base, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
        expected = f"{base}_{following[base]}" if following.get(base) else base
        told.append(base if name == expected and not base.startswith("=") else f"={name}")
        following[base] = number + 1
    return told


@dataclass(frozen=True)
class Rendering:
    """A report in every format.

    Attributes:
        body: The JSON report as plain lists and dicts, without its page.
        view: What the page shows.
        rules: The rules that could have fired, for SARIF.
    """

    body: Body
    view: Part
    rules: tuple[Rule, ...] = ()

    def text(self, name: str) -> str:
        """The report in the format ``html``, ``json``, ``sarif`` or ``markdown``.

        Raises:
            UserError: ``report-format-unknown``.
        """
        if name == "html":
            return self._html()
        if name == "json":
            return json_text(self._with_page()) + "\n"
        if name == "sarif":
            return sarif_text(self.body, self.rules)
        if name == "markdown":
            return markdown_text(self.view)
        raise format_unknown(name)

    def _with_page(self, *, with_graph: bool = True) -> dict[str, Json]:
        """The report with what its page shows, from which the page is drawn again without the model."""
        return {**self.body, "page": page_json(self.view, with_graph=with_graph)}

    def _html(self) -> str:
        # The explorer's data stand in the page once, names of ops are short; a download puts both back into the JSON.
        body = json_text(with_short_names(self._with_page(with_graph=False)), compact=True)
        fired = {finding["rule"] for finding in self.body["findings"]}
        rules = tuple(rule for rule in self.rules if rule.id in fired)
        return html_page(self.view, body, json_text(sarif_log(self.body, rules, repository_root()), compact=True))


class Saveable(ABC):
    """What can be written in every format: a report just made, or a saved one."""

    @property
    @abstractmethod
    def rendering(self) -> Rendering:
        """It in every format."""

    @checked(path=path)
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report whole or not at all, in the format of the suffix: ``.html``, ``.json``, ``.sarif``, ``.md``.

        Raises:
            UserError: The suffix is another, the place cannot be written, or a saved report holds no page.
        """
        place = Path(path)
        write_atomically(place, self.rendering.text(format_of(place)))
        return place

    def show(self) -> Path:
        """Open the page in the browser; gives the file that it was written to."""
        return open_page(self.save(Path(tempfile.mkdtemp(prefix="trtdiag-")) / "report.html"))


def open_page(page: Path) -> Path:
    """Open a written page in the browser."""
    webbrowser.open(page.resolve().as_uri())
    return page
