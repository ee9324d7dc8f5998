"""The summary in the terminal.

Names go in as rich `Text`, never as markup: a node called ``[red]`` stays ``[red]``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from trtdiag.analysis.finding import Finding, Severity
from trtdiag.analysis.not_checked import NO_WEIGHTS
from trtdiag.analysis.result import Analysis
from trtdiag.dims.facts import DimRow
from trtdiag.report.comparison import Body
from trtdiag.report.engine_words import earlier_engines, engines_line, together_line, tried_line
from trtdiag.report.page import Part
from trtdiag.report.settings import carried_flags
from trtdiag.report.shown_paths import place, short_paths
from trtdiag.report.similar_findings import SimilarFindings, similar_findings
from trtdiag.report.terminal_layout import hanging, plain_table, unbroken
from trtdiag.report.verdict import (
    CauseTree,
    Verdict,
    cause_trees,
    doubt_about_declaration,
    first_frame,
    merged_dynamic_shapes,
    not_covered,
    severity_word,
    verdict,
)
from trtdiag.report.view_comparison import comparison_view
from trtdiag.report.view_sizes import DOUBTFUL, STATES
from trtdiag.wording import listed, one_line, visible

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_VERDICT_STYLES = {"error": "bold red", "warning": "bold yellow", "incomplete": "bold yellow", "clean": "bold green"}
_LONGEST_MESSAGE_CHARS = 600
_TABLE_COLUMNS = 100  # below, a list takes the place of a table
_LEAST_CODE_CHARS = 16  # less of a line of code says nothing
_MOST_OTHERS = 6
_MOST_LINES = 4
_FINE_STATES = ("ok", "static")
_MOST_DIMS = 24
_MOST_CHANGES = 20


_CAPTURE_FAILED = frozenset({"ART802"})
"""The rule that tells of a failed export itself."""


def print_summary(
    analysis: Analysis,
    console: Console,
    paths: Iterable[str] = (),
    *,
    comparison: Body | None = None,
    source: Sequence[str] = (),
) -> None:
    """Print the verdict, the findings with what to do, the dims to declare, and where to go on.

    Args:
        analysis: What was found.
        console: Where to; code to copy keeps its lines, however narrow it is.
        paths: The reports that were written.
        comparison: What changed since an earlier report.
        source: What was analysed, as the words of a command line, for the command to go on with; without any none.
    """
    told = summary(analysis, paths, width=console.width, comparison=comparison, source=source)
    console.print(told, crop=False)


def summary(
    analysis: Analysis,
    paths: Iterable[str] = (),
    *,
    width: int = 80,
    comparison: Body | None = None,
    source: Sequence[str] = (),
) -> RenderableType:
    """The summary as something rich can print to a console of ``width`` columns (``crop=False``)."""
    result = verdict(analysis)
    rules = {finding.rule for finding in analysis.findings}
    parts: list[RenderableType] = [_headline(analysis, result)]
    parts.extend(
        Text(one_line(f"{stage.name} failed: {stage.message}", _LONGEST_MESSAGE_CHARS), style="red")
        for stage in analysis.stages
        if stage.state == "failed" and not (stage.name == "capture" and _CAPTURE_FAILED & rules)
    )
    for found in similar_findings(cause_trees(analysis.findings)):
        parts += [Text(""), *_finding(found, analysis, width)]
    declared = merged_dynamic_shapes(analysis)
    if declared is not None:
        parts += [Text(""), hanging(2, (_declare_words(analysis), "bold")), Text(""), unbroken(visible(declared))]
    elif any(row.state not in _FINE_STATES for row in analysis.dims.rows):
        parts += [Text(""), *_dims(analysis.dims.rows, width)]
    parts.append(Text(""))
    if comparison is not None:
        parts += [comparison_text(comparison_view(comparison)), Text("")]
    parts += _ending(analysis, source)
    parts.extend(unbroken(f"report: {visible(path)}") for path in paths)
    return Group(*parts)


def _declare_words(analysis: Analysis) -> str:
    doubt = doubt_about_declaration(analysis)
    return f"What to declare{f', as far as is known ({doubt}; trtdiag fix-dims tries it out)' if doubt else ''}:"


def _headline(analysis: Analysis, result: Verdict) -> RenderableType:
    label = one_line(analysis.program.label)
    return hanging(2, (f"{label}: ", "bold"), (result.short, _VERDICT_STYLES[result.status]))


def _finding(found: SimilarFindings, analysis: Analysis, width: int) -> Iterator[RenderableType]:
    """A block: what is wrong, of what else, at which line, what to do, what it causes."""
    finding, count = found.finding, len(found.trees)
    yield hanging(4, _label(finding, count), _message(finding))
    if found.others:
        others = listed([one_line(words) for words in found.others], _MOST_OTHERS)
        yield hanging(8, "  also: ", visible(others))
    line = _line(found, width)
    if line is not None:
        yield line
    if finding.fix is not None:
        yield hanging(7, ("  fix: ", "green"), one_line(short_paths(finding.fix.title), _LONGEST_MESSAGE_CHARS))
        code = finding.fix.code.rstrip("\n")
        if code and count == 1 and code != merged_dynamic_shapes(analysis):
            yield unbroken(visible(code), 7)
    yield from _caused(found.caused, 1)


def _label(finding: Finding, count: int) -> Text:
    times = f" x{count:,}" if count > 1 else ""
    word = severity_word(finding.severity), _STYLES[finding.severity]
    return Text.assemble(word, f" {one_line(finding.rule)}{times}  ")


def _message(finding: Finding) -> str:
    return one_line(short_paths(finding.message), _LONGEST_MESSAGE_CHARS)


def _caused(trees: Iterable[CauseTree], depth: int) -> Iterator[RenderableType]:
    for found in similar_findings(trees):
        mark = "  " * depth + "└ "
        yield hanging(len(mark) + 2, mark, _label(found.finding, len(found.trees)), _message(found.finding))
        yield from _caused(found.caused, depth + 1)


def _line(found: SimilarFindings, width: int) -> RenderableType | None:
    """Where they are, ``model.py:33 (+2)  y = attention(q, k)``, the code of one line cut where the terminal ends."""
    findings = [tree.finding for tree in found.trees]
    frames = list(dict.fromkeys(frame for finding in findings if (frame := first_frame(finding)) is not None))
    if not frames:
        return None
    more = sum(len(finding.places) for finding in findings) - len(findings)
    where = "  " + listed([place(frame) for frame in frames], _MOST_LINES) + (f" (+{more:,})" if more > 0 else "")
    if len(frames) > 1:
        return hanging(4, (where, "dim"))
    if frames[0].inside is not None:
        where += f", in {one_line(frames[0].inside.short)}"
    room = width - len(where) - 2
    code = visible(frames[0].code.strip()) if room >= _LEAST_CODE_CHARS else ""
    shown = code if len(code) <= max(room, 0) else code[: room - 1] + "…"
    return hanging(4, (where, "dim"), "  " if shown else "", shown)


def _ending(analysis: Analysis, source: Sequence[str]) -> Iterator[RenderableType]:
    """Engines, what was tried, what to run next, what was not checked."""
    engines = engines_line(analysis)
    if engines:
        together = together_line(analysis)
        yield hanging(2, engines + (f"; {together}" if together else ""))
    if analysis.tried is not None:
        yield Text(tried_line(analysis.tried))
        yield from (hanging(2, "  ", one_line(note, _LONGEST_MESSAGE_CHARS)) for note in analysis.tried.remedies)
    command = "fix-dims" if _dims_to_fix(analysis) else "" if NO_WEIGHTS in analysis.not_checked else "compile"
    parts = analysis.partition
    if command == "compile" and parts is not None and earlier_engines(parts) and not parts.partitioned.segments:
        command = "verify"
    if source and command:
        words = [*source, *(() if command == "verify" else carried_flags(analysis.options, command))]
        yield unbroken(f"next: trtdiag {command} {visible(shlex.join(words))}")
    yield from (hanging(2, (text, "dim")) for text in not_covered(analysis))


def _dims_to_fix(analysis: Analysis) -> bool:
    wrong = any(row.state not in (*_FINE_STATES, *DOUBTFUL) for row in analysis.dims.rows)
    return wrong or analysis.dims.declaration is not None or analysis.program.failure is not None


def page_summary(view: Part, paths: Iterable[str] = ()) -> RenderableType:
    """The summary of a saved report: verdict, what changed, where the reports are."""
    verdict, comparison = view["verdict"], view["comparison"]
    style = _VERDICT_STYLES["clean" if verdict["status"] == "partial" else verdict["status"]]
    parts: list[RenderableType] = [
        Text(one_line(verdict["text"], _LONGEST_MESSAGE_CHARS), style=style, overflow="fold"),
        *([] if comparison is None else [Text(""), comparison_text(comparison), Text("")]),
        *(Text(f"report: {visible(path)}") for path in paths),
    ]
    return Group(*parts)


def comparison_text(view: Part) -> RenderableType:
    """What changed since an earlier report: findings that are new or fixed, and numbers that differ."""
    lines: list[RenderableType] = [hanging(2, (visible("{summary}, compared with {earlier}".format_map(view)), "bold"))]
    lines += [hanging(2, (visible(note), "yellow")) for note in view["notes"]]
    styles = {"new": "red", "fixed": "green", "unchanged": "yellow"}
    changes = view["changes"]
    for change in changes[:_MOST_CHANGES]:
        state = change["state"]
        told = visible("{id} {word}: {message}".format_map(change))
        lines.append(hanging(4, (f"  {state} ", styles[state]), told))
    if len(changes) > _MOST_CHANGES:
        lines.append(Text(f"  and {len(changes) - _MOST_CHANGES:,} more", style="dim"))
    lines += [Text(visible(f"  {what}: {then} -> {now}")) for what, then, now in view["numbers"]["rows"] if then != now]
    return Group(*lines)


def _state_words(row: DimRow) -> str:
    return STATES[row.state] if row.state in DOUBTFUL else row.state


def _dims(rows: Sequence[DimRow], width: int) -> Iterator[RenderableType]:
    """The dims that need attention, where no declaration of all is known, and one line about the others."""
    wrong = [row for row in rows if row.state not in _FINE_STATES]
    if width >= _TABLE_COLUMNS:
        table = plain_table(
            ("dim", "declared", "range", "allowed", "suggested", "state"), title="Dims", title_justify="left"
        )
        for row in wrong[:_MOST_DIMS]:
            cells = (row.site, row.declared, str(row.range), row.allowed, row.suggested)
            table.add_row(*(Text(one_line(cell)) for cell in cells), Text(_state_words(row), style="yellow"))
        yield table
    else:
        yield Text("Dims")
        for row in wrong[:_MOST_DIMS]:
            declared = f" declared {row.declared}" if row.declared else ""
            more = [f"{name} {text}" for name, text in (("allowed", row.allowed), ("suggested", row.suggested)) if text]
            told = one_line(
                f"{row.site}{declared}: {_state_words(row)}, {', '.join([str(row.range), *more])}",
                _LONGEST_MESSAGE_CHARS,
            )
            yield hanging(4, "  ", told)
    counts = (max(0, len(wrong) - _MOST_DIMS), "more like these"), (len(rows) - len(wrong), "fine")
    rest = ", ".join(f"{number:,} {words}" for number, words in counts if number)
    if rest:
        yield Text(f"and {rest}", style="dim")
