"""What changed since an earlier report, as the page and the terminal show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from trtdiag.analysis.finding import Severity
from trtdiag.report.comparison import Body
from trtdiag.report.page import Part, folding_table, table
from trtdiag.report.verdict import severity_word
from trtdiag.report.view_sizes import profile_text
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic.ranges import Range
from trtdiag.wording import LONG_CHARS, amount, bytes_text, one_line

_MOST_CHANGES = 100
_SIDES = ("before", "after")


def comparison_view(found: Body) -> Part:
    """The section of the page."""
    alike = not found.get("unlike")
    changed = [(state, each) for state in ("new", "fixed") for each in found[state] if alike]
    changed += [("unchanged", each) for each in found["unchanged"] if each["severity_before"] and alike]
    same = [("unchanged", each) for each in found["unchanged"] if not each["severity_before"] and alike]
    hidden = max(0, len(changed) - _MOST_CHANGES)
    notes = [one_line(note, LONG_CHARS) for note in found["notes"]]
    if hidden:
        notes.append(f"{hidden:,} more changes are in the JSON report")
    return {
        "summary": comparison_line(found),
        "earlier": one_line(found["earlier"]),
        "changes": [_change(*each) for each in changed[:_MOST_CHANGES]],
        "folded": [_change(*each) for each in same[:_MOST_CHANGES]],
        "more": amount(len(same), "finding is unchanged", "findings are unchanged") if same else "",
        "numbers": _numbers(found),
        "symbols": folding_table(
            ("symbol", "range before", "now", "profile before", "now"),
            [
                (one_line(each["name"]), *(told(each[side]) for told in (_range, _profile) for side in _SIDES))
                for each in found["symbols"]
                if alike
            ],
            ("code",),
        ),
        "notes": [f"{note}." for note in notes],
    }


def comparison_line(found: Body) -> str:
    """``2 new, 1 fixed, 5 unchanged findings; 11 engines became 2``."""
    if found.get("unlike"):
        return f"Side by side: {found['unlike']}"
    new, fixed, same = (len(found[state]) for state in ("new", "fixed", "unchanged"))
    line = f"{new:,} new, {fixed:,} fixed, {same:,} unchanged {'finding' if new + fixed + same == 1 else 'findings'}"
    before, after = (found["engines"][side] for side in _SIDES)
    if before is not None and after is not None and before["engines"] != after["engines"]:
        line += f"; {amount(before['engines'], 'engine')} became {after['engines']:,}"
    calls = [(each["before_ms"], each["after_ms"]) for each in found["calls"]]
    measured = [each for each in calls if None not in each]
    if measured:
        line += f"; a call took {measured[0][0]:.3g} ms and takes {measured[0][1]:.3g} ms"
    if found["symbols"]:
        line += f"; {amount(len(found['symbols']), 'symbol')} changed"
    return line


def _change(state: str, change: Body) -> Part:
    was = f" (was {severity_word(change['severity_before'])})" if change["severity_before"] is not None else ""
    return {
        "state": state,
        "id": one_line(change["id"]),
        "severity": change["severity"],
        "word": severity_word(change["severity"]) + was,
        "message": one_line(change["message"], LONG_CHARS),
    }


def _numbers(found: Body) -> Part:
    sides = [found["engines"][side] for side in _SIDES]

    def row(what: str, number: Callable[[Body], int]) -> tuple[str, ...]:
        return what, *("not planned" if each is None else f"{number(each):,}" for each in sides)

    rows = [
        *_severities(found),
        row("engines", lambda engines: engines["engines"]),
        row("ops in engines", lambda engines: engines["ops_in_engines"]),
        row("ops in PyTorch", lambda engines: engines["ops"] - engines["ops_in_engines"]),
        *_built([each or {"engine_bytes": None, "latency_ms": {}} for each in sides]),
        *_calls(found),
    ]
    return table(("", "before", "now"), rows, kinds=("", "number", "number"))


def _severities(found: Body) -> Iterator[tuple[str, str, str]]:
    """How many findings there are of each severity, on either side."""
    before = [each["severity_before"] or each["severity"] for each in found["unchanged"]]
    before += [each["severity"] for each in found["fixed"]]
    after = [each["severity"] for state in ("new", "unchanged") for each in found[state]]
    for severity in Severity:
        counts = [side.count(severity.value) for side in (before, after)]
        if any(counts):
            yield f"{severity_word(severity)}s", f"{counts[0]:,}", f"{counts[1]:,}"


def _built(sides: Sequence[Body]) -> Iterator[tuple[str, ...]]:
    sizes = [each["engine_bytes"] for each in sides]
    if any(size is not None for size in sizes):
        yield "bytes of engines", *(bytes_text(size, "not built") for size in sizes)
    before, after = (each["latency_ms"] for each in sides)
    for name in dict.fromkeys((*after, *before)):
        told = (f"{time[name]:.3g} ms" if name in time else "not measured" for time in (before, after))
        yield f"layers of {one_line(name)}", *told


def _calls(found: Body) -> Iterator[tuple[str, str, str]]:
    for call in found["calls"]:
        before, after = call["before_ms"], call["after_ms"]
        told = ["not measured" if time is None else f"{time:.3g} ms" for time in (before, after)]
        change = f" ({after / before:.2f} times as long)" if before and after is not None else ""
        yield f"a call at {one_line(call['sizes'])}", told[0], told[1] + change


def _range(symbol: Body | None) -> str:
    if symbol is None:
        return "no such symbol"
    return "none" if symbol["range"] is None else str(Range(**symbol["range"]))


def _profile(symbol: Body | None) -> str:
    return "" if symbol is None or symbol["profile"] is None else profile_text(DimProfile(**symbol["profile"]))
