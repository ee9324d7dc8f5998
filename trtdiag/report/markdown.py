"""The report as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trtdiag.report.page import Part
from trtdiag.report.shown_paths import short_paths
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
