"""What changed between two reports: findings by fingerprint, engines, symbols, times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trtdiag.analysis.finding import Finding, Severity
from trtdiag.report.record import Record, RecordedEngines, RecordedSymbol


@dataclass(frozen=True)
class Change:
    """A finding in one of two reports or in both.

    Attributes:
        state: ``new``, ``fixed`` or ``unchanged``.
        finding: As it is now; as it was where it is fixed.
        before: Its severity then, where that was another.
    """

    state: str
    finding: Finding
    before: Severity | None = None


@dataclass(frozen=True)
class SymbolChange:
    """A symbol whose range or profile changed; ``None`` on the side where there is no such symbol."""

    name: str
    before: RecordedSymbol | None
    after: RecordedSymbol | None


@dataclass(frozen=True)
class Comparison:
    """What changed since an earlier report.

    Attributes:
        earlier: How to name that report.
        changes: Every finding of both: new ones first, then fixed, then unchanged, each in the order of its report.
        engines: Before and after; ``None`` where nothing was planned.
        symbols: Those that changed, by the user's name.
        calls_ms: Milliseconds of a call of the compiled program, before and after, by sizes; ``None`` where that was
            not measured.
        notes: What makes the two hard to compare: another program, target or version.
    """

    earlier: str
    changes: tuple[Change, ...]
    engines: tuple[RecordedEngines | None, RecordedEngines | None]
    symbols: tuple[SymbolChange, ...]
    calls_ms: Mapping[str, tuple[float | None, float | None]]
    notes: tuple[str, ...]

    def of(self, state: str) -> tuple[Change, ...]:
        """The changes of one state."""
        return tuple(change for change in self.changes if change.state == state)


def compared(before: Record, after: Record, earlier: str) -> Comparison:
    """What changed from one report to another.

    Args:
        before: The earlier one.
        after: The later one.
        earlier: How to name the earlier one.
    """
    old = {finding.fingerprint: finding for finding in before.findings}
    now = {finding.fingerprint for finding in after.findings}
    new = [Change("new", each) for each in after.findings if each.fingerprint not in old]
    fixed = [Change("fixed", each) for each in before.findings if each.fingerprint not in now]
    unchanged = [_unchanged(old[each.fingerprint], each) for each in after.findings if each.fingerprint in old]
    return Comparison(
        earlier=earlier,
        changes=(*new, *fixed, *unchanged),
        engines=(before.engines, after.engines),
        symbols=tuple(_symbols(before, after)),
        calls_ms=_calls(before, after),
        notes=tuple(_notes(before, after)),
    )


def _unchanged(before: Finding, after: Finding) -> Change:
    return Change("unchanged", after, None if before.severity is after.severity else before.severity)


def _symbols(before: Record, after: Record) -> Iterator[SymbolChange]:
    old = {symbol.name: symbol for symbol in before.symbols}
    now = {symbol.name: symbol for symbol in after.symbols}
    for name in dict.fromkeys((*now, *old)):
        if old.get(name) != now.get(name):
            yield SymbolChange(name, old.get(name), now.get(name))


def _calls(before: Record, after: Record) -> dict[str, tuple[float | None, float | None]]:
    old, now = ({} if each.times is None else each.times.calls_ms for each in (before, after))
    return {sizes: (old.get(sizes), now.get(sizes)) for sizes in dict.fromkeys((*now, *old))}


def _notes(before: Record, after: Record) -> Iterator[str]:
    for what, then, today in (
        ("program", before.label, after.label),
        ("TensorRT", before.target, after.target),
        ("trtdiag", before.version, after.version),
    ):
        if then != today:
            yield f"Another {what}: {then} then, {today} now"
    if before.times is not None and after.times is not None and before.times.device != after.times.device:
        yield f"Calls were timed on another device: {before.times.device} then, {after.times.device} now"
