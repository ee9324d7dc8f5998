"""What changed since an earlier report, as the page and the terminal show it."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.report.comparison import Change, Comparison
from trtdiag.report.page import Part, table
from trtdiag.report.record import RecordedEngines, RecordedSymbol
from trtdiag.report.text import amount, bytes_text, one_line
from trtdiag.report.verdict import severity_word
from trtdiag.report.view_inputs import profile_text
from trtdiag.report.view_types import folding_table

_MOST_CHANGES = 100
_LONGEST_CHARS = 400


def comparison_view(found: Comparison) -> Part:
    """The section of the page."""
    changed = [*found.of("new"), *found.of("fixed"), *(each for each in found.of("unchanged") if each.before)]
    same = [each for each in found.of("unchanged") if not each.before]
    hidden = max(0, len(changed) - _MOST_CHANGES)
    notes = [*(one_line(note, _LONGEST_CHARS) for note in found.notes)]
    if hidden:
        notes.append(f"{hidden:,} more changes are in the JSON report")
    return {
        "summary": comparison_line(found),
        "earlier": one_line(found.earlier),
        "changes": [_change(each) for each in changed[:_MOST_CHANGES]],
        "folded": [_change(each) for each in same[:_MOST_CHANGES]],
        "more": amount(len(same), "finding is unchanged", "findings are unchanged") if same else "",
        "numbers": _numbers(found),
        "symbols": folding_table(
            ("symbol", "range before", "now", "profile before", "now"),
            [
                (
                    one_line(each.name),
                    _range(each.before),
                    _range(each.after),
                    _profile(each.before),
                    _profile(each.after),
                )
                for each in found.symbols
            ],
            ("code",),
        ),
        "notes": [f"{note}." for note in notes],
    }


def comparison_line(found: Comparison) -> str:
    """``2 new, 1 fixed, 5 unchanged findings; 11 engines became 2``."""
    new, fixed, same = (len(found.of(state)) for state in ("new", "fixed", "unchanged"))
    line = f"{new:,} new, {fixed:,} fixed, {same:,} unchanged {'finding' if new + fixed + same == 1 else 'findings'}"
    before, after = found.engines
    if before is not None and after is not None and before.engines != after.engines:
        line += f"; {amount(before.engines, 'engine')} became {after.engines:,}"
    measured = [(then, now) for then, now in found.calls_ms.values() if then is not None and now is not None]
    if measured:
        line += f"; a call took {measured[0][0]:.3g} ms and takes {measured[0][1]:.3g} ms"
    if found.symbols:
        line += f"; {amount(len(found.symbols), 'symbol')} changed"
    return line


def _change(change: Change) -> Part:
    finding = change.finding
    was = f" (was {severity_word(change.before)})" if change.before is not None else ""
    return {
        "state": change.state,
        "id": one_line(finding.id),
        "severity": finding.severity.value,
        "word": severity_word(finding.severity) + was,
        "message": one_line(finding.message, _LONGEST_CHARS),
    }


def _numbers(found: Comparison) -> Part:
    before, after = found.engines
    rows = [
        ("engines", _count(before, "engines"), _count(after, "engines")),
        ("ops in engines", _count(before, "inside"), _count(after, "inside")),
        ("ops in PyTorch", _left(before), _left(after)),
        *_built(before, after),
        *_calls(found),
    ]
    return table(("", "before", "now"), tuple(rows), kinds=("", "number", "number"))


def _count(engines: RecordedEngines | None, what: str) -> str:
    return "not planned" if engines is None else f"{getattr(engines, what):,}"


def _left(engines: RecordedEngines | None) -> str:
    return "not planned" if engines is None else f"{engines.ops - engines.inside:,}"


def _built(before: RecordedEngines | None, after: RecordedEngines | None) -> Iterator[tuple[str, str, str]]:
    sizes = [None if each is None else each.engine_bytes for each in (before, after)]
    if any(size is not None for size in sizes):
        told = ["not built" if size is None else bytes_text(size) for size in sizes]
        yield "bytes of engines", told[0], told[1]
    times = [{} if each is None else each.latency_ms for each in (before, after)]
    for name in dict.fromkeys((*times[1], *times[0])):
        told = [f"{time[name]:.3g} ms" if name in time else "not measured" for time in times]
        yield f"layers of {one_line(name)}", told[0], told[1]


def _calls(found: Comparison) -> Iterator[tuple[str, str, str]]:
    for sizes, (before, after) in found.calls_ms.items():
        told = ["not measured" if time is None else f"{time:.3g} ms" for time in (before, after)]
        change = f" ({after / before:.2f} times as long)" if before and after is not None else ""
        yield f"a call at {one_line(sizes)}", told[0], told[1] + change


def _range(symbol: RecordedSymbol | None) -> str:
    if symbol is None:
        return "no such symbol"
    return "none" if symbol.range is None else str(symbol.range)


def _profile(symbol: RecordedSymbol | None) -> str:
    return "" if symbol is None else profile_text(symbol.profile)
