"""The report as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trtdiag.report.text import one_line
from trtdiag.report.view import FindingView, TableView
from trtdiag.report.view_page import ReportView
from trtdiag.report.view_sections import ComparisonView, SplitsView

_MOST_FINDINGS = 25
_MOST_ROWS = 12
_LONGEST_CHARS = 300
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~!&@$])")
_SIGNS = {"error": "❌", "warning": "⚠️", "info": "🔹", "incomplete": "⚠️", "partial": "✅", "clean": "✅"}


def markdown_text(view: ReportView) -> str:
    """Verdict, what changed, findings, what splits the engines, what was not checked; names are escaped."""
    parts = [*_head(view)]
    if view.comparison is not None:
        parts += _changes(view.comparison)
    parts += _findings(view)
    if view.splits is not None:
        parts += _splits(view.splits)
    if view.not_checked:
        parts += _folded("Not checked", [f"- {_plain(text)}" for text in view.not_checked])
    parts += _folded("Reproduce", ["```", view.settings.command.replace("```", "` ` `"), "```"])
    return "\n".join(parts).rstrip() + "\n"


def _head(view: ReportView) -> Iterator[str]:
    verdict = view.verdict
    yield f"### {_SIGNS.get(verdict.status, '')} {_plain(verdict.headline)}"
    yield ""
    yield f"trtdiag on {_code(view.label)}"
    yield ""
    if verdict.first:
        yield f"First cause: **{_plain(verdict.first_id)}** {_plain(verdict.first)}"
        yield ""
    if verdict.failure:
        yield _plain(verdict.failure)
        yield ""
    failed = [stage for stage in view.stages if stage.state == "failed"]
    yield from (f"- {_plain(stage.name)} failed: {_plain(stage.message)}" for stage in failed)
    if failed:
        yield ""  # a table right behind a list would be text of its last entry


def _findings(view: ReportView) -> Iterator[str]:
    every = list(_walk(view.findings))
    if not every:
        yield "No findings. This covers only what was checked."
        yield ""
        return
    yield from _table(
        ("", "finding", "", "where"),
        [
            (_SIGNS[each.severity], f"**{_plain(each.id)}**", _plain(each.message), _where(each))
            for each in every[:_MOST_FINDINGS]
        ],
    )
    if len(every) > _MOST_FINDINGS:
        yield f"and {len(every) - _MOST_FINDINGS:,} more"
        yield ""
    fixes = [each for each in every[:_MOST_FINDINGS] if each.fix is not None]
    lines = []
    for each in fixes:
        if each.fix is not None:
            lines += [f"**{_plain(each.id)}** ({each.fix.applicability}): {_plain(each.fix.title)}", ""]
            if each.fix.code:
                lines += ["```python", each.fix.code.replace("```", "` ` `"), "```", ""]
    if lines:
        yield from _folded("Fixes", lines)


def _walk(findings: Iterable[FindingView]) -> Iterator[FindingView]:
    for each in findings:
        yield each
        yield from _walk(each.caused)


def _where(each: FindingView) -> str:
    return _code(each.where) + (f" in {_plain(each.modules)}" if each.modules else "")


def _splits(splits: SplitsView) -> Iterator[str]:
    yield f"**Engines**: {_plain(splits.summary)}"
    yield ""
    yield from (f"- {_plain(text)}" for text in splits.outcomes)
    if splits.outcomes:
        yield ""
    if splits.rows:
        rows = [
            (_code(row.op), row.calls, row.engines, row.ops, _plain(row.crossing), _plain(row.reason))
            for row in splits.rows[:_MOST_ROWS]
        ]
        yield from _table(
            ("stays in PyTorch", "calls", "engines without it", "ops in engines", "bytes that cross", "because"), rows
        )


def _changes(found: ComparisonView) -> Iterator[str]:
    yield f"**{_plain(found.summary)}** since {_plain(found.earlier)}"
    yield ""
    for change in found.changes[:_MOST_FINDINGS]:
        yield f"- {change.state}: {_SIGNS[change.severity]} **{_plain(change.id)}** {_plain(change.message)}"
    if found.changes:
        yield ""
    yield from _view_table(found.numbers)
    if found.symbols is not None:
        yield from _view_table(found.symbols)


def _view_table(table: TableView) -> Iterator[str]:
    yield from _table(table.heads, [tuple(_plain(cell) for cell in row) for row in table.rows])


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _folded(title: str, lines: list[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]


def _plain(text: str) -> str:
    """Text in which nothing is markup, nor calls anybody."""
    return _MARKS.sub(r"\\\1", one_line(text, _LONGEST_CHARS))


def _code(text: str) -> str:
    """A name in code style; a table would still end a cell at a bar."""
    flat = one_line(text, _LONGEST_CHARS).replace("`", "'").replace("|", "\\|")
    return f"`{flat}`" if flat else ""
