"""What changed since the sweep before: regressions first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trtdiag.fleet.facts import Diagnosis
from trtdiag.fleet.rows import DIFFERS, STATES, Row
from trtdiag.wording import amount, bytes_text, listed

_GROWN = 1.1
"""Own choice: engines larger by less than a tenth are no news, and builds of TensorRT differ by some percent."""


@dataclass(frozen=True)
class Change:
    """What changed in a row: whether it is worse or better, and how, in words."""

    row: str
    words: tuple[str, ...]
    report: str


@dataclass(frozen=True)
class SweepComparison:
    """Two sweeps side by side.

    Attributes:
        earlier: Names the one before.
        regressions: Rows in which something is worse; what is better in them stands there, too.
        improvements: Rows in which something is better and nothing worse.
        unchanged: How many rows are as they were.
        added: Rows that the one before does not have.
        gone: Rows that only that has.
    """

    earlier: str
    regressions: tuple[Change, ...]
    improvements: tuple[Change, ...]
    unchanged: int
    added: tuple[str, ...]
    gone: tuple[str, ...]


def compared(before: Sequence[Row], after: Sequence[Row], earlier: str) -> SweepComparison:
    """Compare row by row; rows are the same that have the same program, target, precision and GPU."""
    old = {row.id: row for row in before}
    now = {row.id for row in after}
    regressions, improvements, unchanged = [], [], 0
    for row in sorted(after, key=lambda each: STATES.index(each.state)):
        if row.id not in old:
            continue
        worse, better = [*_worse(old[row.id], row)], [*_worse(row, old[row.id], better=True)]
        report = next(iter(row.reports.values()), "")
        if worse:
            regressions.append(Change(row.label, (*worse, *better), report))
        elif better:
            improvements.append(Change(row.label, tuple(better), report))
        else:
            unchanged += 1
    return SweepComparison(
        earlier,
        tuple(regressions),
        tuple(improvements),
        unchanged,
        tuple(row.label for row in after if row.id not in old),
        tuple(row.label for row in before if row.id not in now),
    )


def _worse(then: Row, now: Row, *, better: bool = False) -> Iterator[str]:
    """In what ``now`` is worse than ``then``; asked the other way round, in what it was better."""

    def told(before: object, after: object) -> str:
        return f"{after} -> {before}" if better else f"{before} -> {after}"

    if STATES.index(now.state) < STATES.index(then.state):
        yield f"{told(then.state, now.state)}: {then.text if better else now.text}"
    if now.compared == DIFFERS and then.compared not in (None, DIFFERS):
        yield told(f"output {then.compared}", f"output {now.compared}")
    yield from _findings(then.diagnosis, now.diagnosis, better=better)
    yield from _engines(then.diagnosis, now.diagnosis, told)
    if then.built is not None and then.built.file and not (now.built is not None and now.built.file):
        yield told("compiled", "not compiled")
    elif then.built is not None and now.built is not None:
        sizes = then.built.engine_bytes, now.built.engine_bytes
        if sizes[1] > sizes[0] * _GROWN:
            yield f"engines {told(bytes_text(sizes[0]), bytes_text(sizes[1]))}"


def _findings(then: Diagnosis | None, now: Diagnosis | None, *, better: bool) -> Iterator[str]:
    """Errors and warnings that only ``now`` has."""
    if then is None or now is None:
        return
    known = {hit.fingerprint for hit in then.findings}
    new = [hit for hit in now.findings if hit.fingerprint not in known and hit.severity != "info"]
    if new:
        rules = list(dict.fromkeys(hit.rule for hit in new))
        yield f"{'fixed' if better else 'new'}: {amount(len(new), 'finding')} of {listed(rules)}: {new[0].message}"


def _engines(then: Diagnosis | None, now: Diagnosis | None, told: Callable[[object, object], str]) -> Iterator[str]:
    if then is None or now is None or then.engines is None or now.engines is None:
        return
    inside = (then.ops_in_engines or 0, now.ops_in_engines or 0)
    if inside[1] < inside[0]:
        yield f"ops in engines {told(*inside)}"
    if now.engines > then.engines > 0:
        yield f"engines {told(then.engines, now.engines)}"
