"""The exact set of values of one symbol for which conditions hold, and the condition that says a set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trtdiag.symbolic import patterns, periodic, smt
from trtdiag.symbolic.build import mod
from trtdiag.symbolic.conditions import all_of, any_of, compare, within
from trtdiag.symbolic.evaluate_array import all_values, holds_array
from trtdiag.symbolic.expr import Condition, Relation, Sym
from trtdiag.symbolic.intervals import Intervals
from trtdiag.symbolic.patterns import PatternError
from trtdiag.symbolic.polynomials import NotApplicableError
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import free_symbols
from trtdiag.symbolic.valueset import ValueSet

FEW_VALUES = 1 << 14  # so many are faster tried than reasoned about
MOST_VALUES = 1 << 22
GUESS_VALUES = 1 << 16
MOST_PARTS = 1 << 10


@dataclass(frozen=True, slots=True)
class Solution:
    """The values that satisfy conditions, and how that is known.

    Without a proof (``proof.proven`` is False) ``values`` is only what was seen to hold, or everything if nothing
    could be seen, and must not be relied on.
    """

    values: ValueSet
    proof: Proof


def allowed(conditions: Sequence[Condition], symbol: str, range_: Range, limit_s: float = 5.0) -> Solution:
    """The values of ``symbol`` in ``range_`` for which all ``conditions`` hold.

    Args:
        conditions: None may have another symbol.
        symbol: The symbol.
        range_: Of any size; open ends are allowed.
        limit_s: For z3, in seconds, where it is needed.

    Raises:
        ValueError: A condition has another symbol.
    """
    condition = all_of(conditions)
    others = free_symbols(condition) - {symbol}
    if others:
        raise ValueError(f"conditions on {symbol} alone were expected, but they have {', '.join(sorted(others))}")
    return _allowed(condition, symbol, range_, limit_s)


@lru_cache(maxsize=1 << 10)
def _allowed(condition: Condition, symbol: str, range_: Range, limit_s: float) -> Solution:
    count = range_.count
    if not free_symbols(condition):
        values = periodic.solve(condition, range_) if count != 0 else ValueSet.nothing(range_)
        return Solution(values, Proof(ProofKind.EXHAUSTIVE, 0, "the condition does not depend on the value"))
    if count is not None and count <= FEW_VALUES:
        return _tried(condition, symbol, range_)
    try:
        values = periodic.solve(condition, range_)
        return Solution(values, Proof(ProofKind.PERIODIC, 0, "exact by residue classes"))
    except NotApplicableError as error:
        why = str(error)
    if count is not None and count <= MOST_VALUES:
        return _tried(condition, symbol, range_)
    return _guessed(condition, symbol, range_, why, limit_s)


def _tried(condition: Condition, symbol: str, range_: Range) -> Solution:
    if range_.min is None or range_.empty:
        return Solution(ValueSet.nothing(range_), Proof(ProofKind.EXHAUSTIVE, 0, "the range is empty"))
    points = all_values(range_)
    try:
        mask = holds_array(condition, {symbol: points})
    except OverflowError as error:
        return Solution(ValueSet.full(range_), Proof(ProofKind.NONE, 0, str(error)))
    detail = f"all {len(points):,} values tried"
    return Solution(ValueSet.from_mask(range_.min, mask, range_), Proof(ProofKind.EXHAUSTIVE, len(points), detail))


def _guessed(condition: Condition, symbol: str, range_: Range, why: str, limit_s: float) -> Solution:
    """Try the first values, take the pattern that they end in for all, and let bounds or z3 prove or refute that."""
    start = range_.min if range_.min is not None else 0
    if range_.min is None:
        return Solution(ValueSet.full(range_), Proof(ProofKind.NONE, 0, f"{why}, and the range has no least value"))
    head = Range(start, start + GUESS_VALUES - 1)
    seen = _tried(condition, symbol, head)
    if not seen.proof.proven or not seen.values.stretches:
        tail = ValueSet.nothing(range_)
    else:
        last = seen.values.stretches[-1]
        reaches = last.high is not None and head.max is not None and last.high > head.max - len(last.mask)
        grown = (type(last)(last.low, None, last.mask),) if reaches else (last,)
        tail = ValueSet(range_, (*seen.values.stretches[:-1], *grown))
    if seen.proof.proven and _bounded(condition, symbol, tail, Range(start + GUESS_VALUES, range_.max)):
        detail = f"{GUESS_VALUES:,} values tried, and bounds for all beyond them"
        return Solution(tail, Proof(ProofKind.MONOTONE, GUESS_VALUES, detail))
    if seen.proof.proven and _proved(condition, symbol, tail, range_, limit_s):
        detail = f"the pattern of the first {GUESS_VALUES} values, shown by z3 to be all"
        return Solution(tail, Proof(ProofKind.SMT, GUESS_VALUES, detail))
    detail = f"{why}; {GUESS_VALUES} values were tried, and z3 could not show that the rest is alike"
    return Solution(tail, Proof(ProofKind.NONE, GUESS_VALUES, detail))


def _bounded(condition: Condition, symbol: str, values: ValueSet, beyond: Range) -> bool:
    """Whether all values from some on are in the set, or none is, as bounds of the condition say it, too."""
    last = values.stretches[-1] if values.stretches else None
    every = last is not None and last.high is None and bool(last.mask.all())
    return (every or last is None or last.high is not None) and Intervals({symbol: beyond}).decide(condition) is every


def _proved(condition: Condition, symbol: str, values: ValueSet, range_: Range, limit_s: float) -> bool:
    try:
        inside = membership(values, symbol)
    except PatternError:
        return False
    box = {symbol: range_}
    missing = smt.find([condition], box, limit_s / 2, refuting=inside)
    return missing.status == "unsat" and smt.find([inside], box, limit_s / 2, refuting=condition).status == "unsat"


def membership(values: ValueSet, symbol: str) -> Condition:
    """A condition on ``symbol`` that holds exactly for the members of ``values``.

    Raises:
        PatternError: It would have more than about a thousand parts.
    """
    target = Sym(symbol)
    parts: list[Condition] = []
    size = 0
    for stretch in values.stretches:
        here = within(target, Range(stretch.low, stretch.high))
        if stretch.mask is not patterns.ALL and not stretch.mask.all():
            period = len(stretch.mask)
            residues = np.flatnonzero(stretch.mask).tolist()
            size += len(residues)
            if size > MOST_PARTS:
                raise PatternError(f"the set has more than {MOST_PARTS} residues")
            rest = mod(target, period)
            here.append(any_of(compare(Relation.EQ, rest, residue) for residue in residues))
        parts.append(all_of(here))
    return any_of(parts)
