"""What a sweep found over all programs: states, rules by programs, ops by the engines that they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trtdiag.fleet.rows import STATES, Row

SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True)
class RuleTotal:
    """A rule: how many programs it hits, and with how many findings, in the variant where it has most."""

    rule: str
    name: str
    severity: str
    programs: int
    findings: int


@dataclass(frozen=True)
class OpTotal:
    """Ops that stay with PyTorch for one reason.

    Attributes:
        op: The op.
        reason: Why it stays, as a name.
        why: That in words, of the first program.
        engines: How many engines there would be less, over all programs; each counts in the variant where it has most.
        calls: How often it is called.
        programs: In how many programs.
    """

    op: str
    reason: str
    why: str
    engines: int
    calls: int
    programs: int


@dataclass(frozen=True)
class Totals:
    """Numbers over all rows.

    Attributes:
        programs: How many there are.
        rows: How many cases.
        states: How many rows end so, the worst first.
        rules: Those that hit most programs first.
        ops: Those that cost most engines first.
    """

    programs: int
    rows: int
    states: dict[str, int]
    rules: tuple[RuleTotal, ...]
    ops: tuple[OpTotal, ...]


def totals_of(rows: Sequence[Row]) -> Totals:
    """Count."""
    states = Counter(row.state for row in rows)
    return Totals(
        programs=len({row.program for row in rows}),
        rows=len(rows),
        states={state: states[state] for state in STATES if states[state]},
        rules=tuple(sorted(_rules(rows), key=lambda each: (-each.programs, -each.findings, each.rule))),
        ops=tuple(sorted(_ops(rows), key=lambda each: (-each.engines, -each.calls, each.op, each.reason))),
    )


def _rules(rows: Iterable[Row]) -> Iterator[RuleTotal]:
    most: dict[str, Counter[str]] = {}
    about: dict[str, tuple[str, str]] = {}
    for row in rows:
        hits = () if row.diagnosis is None else row.diagnosis.findings
        for rule, count in Counter(hit.rule for hit in hits).items():
            by_program = most.setdefault(rule, Counter())
            by_program[row.program] = max(by_program[row.program], count)
        for hit in hits:
            known = about.get(hit.rule, (hit.name, hit.severity))
            about[hit.rule] = (hit.name, min(known[1], hit.severity, key=SEVERITIES.index))
    for rule, by_program in most.items():
        yield RuleTotal(rule, *about[rule], len(by_program), by_program.total())


def _ops(rows: Iterable[Row]) -> Iterator[OpTotal]:
    most: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    words: dict[tuple[str, str], str] = {}
    for row in rows:
        for each in () if row.diagnosis is None else row.diagnosis.left:
            by_program = most.setdefault((each.op, each.reason), {})
            words.setdefault((each.op, each.reason), each.why)
            cost = (each.engines, each.calls)
            by_program[row.program] = max(by_program.get(row.program, (0, 0)), cost)
    for (op, reason), by_program in most.items():
        costs = by_program.values()
        engines, calls = (sum(column) for column in zip(*costs, strict=True))
        yield OpTotal(op, reason, words[op, reason], engines, calls, len(by_program))
