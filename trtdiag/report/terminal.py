"""The summary in the terminal.

Names go in as rich `Text`, never as markup: a node called ``[red]`` stays ``[red]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from trtdiag.analysis.finding import Finding, Severity
from trtdiag.analysis.result import Analysis
from trtdiag.dims.facts import DimRow
from trtdiag.report.comparison import Body
from trtdiag.report.engine_words import engines_line
from trtdiag.report.page import Part
from trtdiag.report.plain_table import plain_table
from trtdiag.report.source_context import place
from trtdiag.report.tried_words import tried_line
from trtdiag.report.verdict import CauseTree, cause_trees, first_frame, severity_word, verdict
from trtdiag.report.view_comparison import comparison_view
from trtdiag.wording import one_line, visible

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_VERDICT_STYLES = {"error": "bold red", "warning": "bold yellow", "incomplete": "bold yellow", "clean": "bold green"}
_LONGEST_MESSAGE_CHARS = 600
_NARROW_COLUMNS = 72
_FINE_STATES = ("ok", "static")
_MOST_DIMS = 24
_MOST_CHANGES = 20


def print_summary(
    analysis: Analysis, console: Console, paths: Iterable[str] = (), *, comparison: Body | None = None
) -> None:
    """Print the verdict, the findings, the dims where something is wrong with them, and where the reports are."""
    console.print(summary(analysis, paths, width=console.width, comparison=comparison))


def summary(
    analysis: Analysis, paths: Iterable[str] = (), *, width: int = 80, comparison: Body | None = None
) -> RenderableType:
    """The summary as something rich can print; below 72 columns lists take the place of tables."""
    result = verdict(analysis)
    parts: list[RenderableType] = [Text(result.text, style=_VERDICT_STYLES[result.status])]
    parts.extend(
        Text(one_line(f"{stage.name} failed: {stage.message}", _LONGEST_MESSAGE_CHARS), style="red")
        for stage in analysis.stages
        if stage.state == "failed"
    )
    trees = cause_trees(analysis.findings)
    if trees:
        parts.append(_finding_list(trees) if width < _NARROW_COLUMNS else _finding_table(trees))
    if any(row.state not in _FINE_STATES for row in analysis.dims.rows):
        parts.append(_dims(analysis, narrow=width < _NARROW_COLUMNS))
    engines = engines_line(analysis)
    if engines:
        parts.append(Text(engines))
    if analysis.tried is not None:
        parts.append(Text(tried_line(analysis.tried)))
        parts += [_set_in(2, Text(one_line(note, _LONGEST_MESSAGE_CHARS))) for note in analysis.tried.remedies]
    if comparison is not None:
        parts.append(comparison_text(comparison_view(comparison)))
    if result.caveat:
        parts.append(Text(result.caveat, style="dim"))
    parts.extend(Text(f"report: {visible(path)}") for path in paths)
    return Group(*parts)


def page_summary(view: Part, paths: Iterable[str] = ()) -> RenderableType:
    """The summary of a saved report: verdict, what changed, where the reports are."""
    verdict, comparison = view["verdict"], view["comparison"]
    style = _VERDICT_STYLES["clean" if verdict["status"] == "partial" else verdict["status"]]
    parts: list[RenderableType] = [
        Text(one_line(verdict["text"], _LONGEST_MESSAGE_CHARS), style=style, overflow="fold"),
        *([] if comparison is None else [comparison_text(comparison)]),
        *(Text(f"report: {visible(path)}") for path in paths),
    ]
    return Group(*parts)


def comparison_text(view: Part) -> RenderableType:
    """What changed since an earlier report: findings that are new or fixed, and numbers that differ."""
    lines = [Text(visible("{summary}, since {earlier}".format_map(view)), style="bold", overflow="fold")]
    lines += [Text(visible(note), style="yellow", overflow="fold") for note in view["notes"]]
    styles = {"new": "red", "fixed": "green", "unchanged": "yellow"}
    changes = view["changes"]
    for change in changes[:_MOST_CHANGES]:
        state = change["state"]
        told = visible("{id} {word}: {message}".format_map(change))
        lines.append(Text.assemble((f"  {state} ", styles[state]), told, overflow="fold"))
    if len(changes) > _MOST_CHANGES:
        lines.append(Text(f"  and {len(changes) - _MOST_CHANGES:,} more", style="dim"))
    lines += [Text(visible(f"  {what}: {then} -> {now}")) for what, then, now in view["numbers"]["rows"] if then != now]
    return Padding(Group(*lines), (1, 0))


def _lines(trees: Iterable[CauseTree], depth: int = 0) -> Iterator[tuple[int, Finding, Text]]:
    """How deep each finding stands below its root, and its severity."""
    for tree in trees:
        severity = tree.finding.severity
        yield depth, tree.finding, Text(severity_word(severity), style=_STYLES[severity])
        yield from _lines(tree.caused, depth + 1)


def _where(finding: Finding) -> str:
    frame = first_frame(finding)
    more = len(finding.places) - 1
    where = place(frame) if frame else ""
    if frame is not None and frame.inside is not None:
        where += f", in {one_line(frame.inside.short)}"
    return f"{where} (+{more:,})" if where and more > 0 else where


def _finding_table(trees: Iterable[CauseTree]) -> RenderableType:
    table = plain_table()
    for name in ("id", "severity"):
        table.add_column(name, no_wrap=True)
    for name, ratio in (("finding", 3), ("line", 2)):
        table.add_column(name, ratio=ratio, overflow="fold")
    for depth, finding, severity in _lines(trees):
        # A finding that another causes is set in under it.
        mark = "  " * (depth - 1) + "└ " if depth else ""
        message = Text(one_line(finding.message, _LONGEST_MESSAGE_CHARS))
        table.add_row(Text(mark + one_line(finding.id)), severity, message, Text(_where(finding), style="dim"))
    return Padding(table, (1, 0))


def _finding_list(trees: Iterable[CauseTree]) -> RenderableType:
    lines: list[RenderableType] = []
    for depth, finding, severity in _lines(trees):
        left = min(depth, 2) * 2
        lines.append(_set_in(left, Text.assemble(one_line(finding.id), " ", severity, overflow="fold")))
        body = Text(one_line(finding.message, _LONGEST_MESSAGE_CHARS), overflow="fold")
        lines.append(_set_in(left + 2, body))
        if where := _where(finding):
            lines.append(_set_in(4, Text(where, style="dim", overflow="fold")))
    return Padding(Group(*lines), (1, 0))


def _set_in(left: int, text: Text) -> Padding:
    return Padding(text, (0, 0, 0, left))


def _dims(analysis: Analysis, *, narrow: bool) -> RenderableType:
    """The dims that need attention, and one line about the others."""
    wrong = [row for row in analysis.dims.rows if row.state not in _FINE_STATES]
    counts = (max(0, len(wrong) - _MOST_DIMS), "more like these"), (len(analysis.dims.rows) - len(wrong), "fine")
    rest = ", ".join(f"{number:,} {words}" for number, words in counts if number)
    shown = wrong[:_MOST_DIMS]
    parts = _dims_list(shown) if narrow else [_dims_table(shown)]
    return Padding(Group(*parts, *([Text(f"and {rest}", style="dim")] if rest else [])), (0, 0, 1, 0))


def _dims_table(rows: Iterable[DimRow]) -> RenderableType:
    heads = ("dim", "declared", "range", "allowed", "suggested", "state")
    table = plain_table(heads, title="Dims", title_justify="left")
    for row in rows:
        cells = (row.site, row.declared, str(row.range), row.allowed, row.suggested)
        table.add_row(*(Text(one_line(cell)) for cell in cells), Text(row.state, style="yellow"))
    return table


def _dims_list(rows: Iterable[DimRow]) -> Iterator[RenderableType]:
    yield Text("Dims")
    for row in rows:
        yield Text(one_line(f"{row.site} declared {row.declared}: {row.state}"), style="yellow", overflow="fold")
        for name, text in (("allowed", row.allowed), ("suggested", row.suggested)):
            if text:
                yield _set_in(2, Text(one_line(f"{name} {text}"), overflow="fold"))
