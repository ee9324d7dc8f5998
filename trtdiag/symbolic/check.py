"""Whether a condition holds for all values of a box, and the smallest values for which it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, product
from random import Random

import numpy as np

from trtdiag.symbolic import smt
from trtdiag.symbolic.allowed import allowed
from trtdiag.symbolic.bounds import BoundsCache, Box
from trtdiag.symbolic.build import sub
from trtdiag.symbolic.conditions import all_of
from trtdiag.symbolic.evaluate import holds
from trtdiag.symbolic.expr import And, Compare, Condition, Expr, FloorDiv, Mod, Num, Or, Pow, TrueDiv
from trtdiag.symbolic.grid import MOST_TUPLES, Grid, tuple_count
from trtdiag.symbolic.intervals import decided
from trtdiag.symbolic.nearby import nearest_fitting, smallest_broken
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import children, is_integer, is_total, symbols_of

Assignment = Mapping[str, int]
SAMPLES = 2000


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a condition holds over a box.

    Attributes:
        verdict: ``holds``, ``breaks`` or ``unknown``.
        proof: Of the verdict. A found counterexample was evaluated, so ``breaks`` is certain whatever the proof says;
            the proof then says how much was searched.
        counterexample: Values at which the condition is false or not defined: the least value of a single symbol; of
            several the tuple with the least maximum, the lexicographically first (symbols by name) of these.
        witness: Values nearest to the counterexample at which it holds, below rather than above; of several symbols
            with the least sum of distances (far ones in a box too large to try: any). ``None`` where there are none
            or none was found.
        smallest: Whether the counterexample was shown to be the smallest.
    """

    verdict: str
    proof: Proof
    counterexample: Assignment | None = None
    witness: Assignment | None = None
    smallest: bool = True


def check(
    condition: Condition,
    box: Box,
    example: Assignment | None = None,
    *,
    given: Sequence[Condition] = (),
    limit_s: float = smt.DEFAULT_LIMIT_S,
) -> CheckResult:
    """Whether ``condition`` holds at all points of ``box`` at which the ``given`` conditions hold.

    Args:
        condition: To be checked; where it is not defined it does not hold.
        box: The range of each symbol; a symbol without one may have any value.
        example: Values at which it is known to hold, a witness of last resort.
        given: Only points at which all of these hold count.
        limit_s: For z3, in seconds, where it is needed.
    """
    names = symbols_of([condition, *given])
    here = {name: box.get(name, Range()) for name in names}
    if any(range_.empty for range_ in here.values()):
        return CheckResult("holds", Proof(ProofKind.EXHAUSTIVE, 0, "the range is empty"))
    if not names:
        always = holds(condition, {}) or not holds(all_of(given), {})
        proof = Proof(ProofKind.EXHAUSTIVE, 0, f"always {'true' if always else 'false'}")
        return CheckResult("holds", proof) if always else CheckResult("breaks", proof, {})
    if shown_by_bounds(condition, here):
        return CheckResult("holds", Proof(ProofKind.MONOTONE, 0, "the bounds of both sides show it"))
    question = _Question(condition, here, given, limit_s)
    result = question.of_one(names[0]) if len(names) == 1 else question.of_several()
    if result.verdict == "breaks" and result.witness is None and example is not None:
        known = {name: example[name] for name in names if name in example}
        if len(known) == len(names) and holds(all_of([condition, *given]), known):
            return replace(result, witness=known)
    return result


@dataclass(frozen=True)
class _Question:
    """What ``check`` is asked, of a box that has every symbol and none without a value."""

    condition: Condition
    box: Box
    given: Sequence[Condition]
    limit_s: float

    @property
    def names(self) -> list[str]:
        """The symbols, sorted."""
        return list(self.box)

    def of_one(self, name: str) -> CheckResult:
        """The answer where ``name`` is the only symbol."""
        solution = allowed([self.condition], name, self.box[name], self.limit_s)
        premise = allowed(self.given, name, self.box[name], self.limit_s)
        if not (solution.proof.proven and premise.proof.proven):
            return self._by_smt()
        refused = solution.values.complement().intersect(premise.values)
        if refused.is_empty:
            return CheckResult("holds", solution.proof)
        least = refused.min
        if least is None:
            # No least value: the refused one nearest to zero stands for it.
            below, above = refused.at_most(0), refused.at_least(0)
            near = [value for value in (above, below) if value is not None]
            least = min(near, key=abs)
        fitting = solution.values.intersect(premise.values)
        witness = fitting.at_most(least)
        witness = fitting.at_least(least) if witness is None else witness
        found = None if witness is None else {name: witness}
        return CheckResult("breaks", solution.proof, {name: least}, found, refused.min is not None)

    def of_several(self) -> CheckResult:
        """The answer for any number of symbols."""
        try:
            early = smallest_broken(self.condition, self.given, self.names, self.box)
            if early is not None:
                found, tried = early
                detail = f"the first {tried:,} tuples of {', '.join(self.names)} tried"
                proof = Proof(ProofKind.EXHAUSTIVE, tried, detail)
                return CheckResult("breaks", proof, found, self._near(found))
            count = tuple_count(self.names, self.box)
            if count is not None and count <= MOST_TUPLES:
                return self._all_tuples(count)
        except OverflowError:
            return self._by_smt()
        exactly = not self.given and _holds_by_exact_bounds(self.condition, BoundsCache(self.box))
        if exactly and always_defined(self.condition, self.box):
            return CheckResult("holds", Proof(ProofKind.MONOTONE, 0, "exact bounds of the difference of both sides"))
        return self._by_smt()

    def _all_tuples(self, count: int) -> CheckResult:
        grid = Grid.of(self.names, self.box)
        good = grid.holds([self.condition])
        counted = grid.holds(self.given) if self.given else np.broadcast_to(np.True_, grid.shape)
        proof = Proof(ProofKind.EXHAUSTIVE, count, f"all {count:,} tuples of {', '.join(self.names)} tried")
        smallest = grid.smallest(~good & counted)
        if smallest is None:
            return CheckResult("holds", proof)
        return CheckResult("breaks", proof, smallest, grid.nearest(good & counted, smallest))

    def _by_smt(self) -> CheckResult:
        answer = smt.find(self.given, self.box, self.limit_s, refuting=self.condition, least=True)
        if answer.status == "unsat":
            return CheckResult("holds", Proof(ProofKind.SMT, 0, "z3 shows that no values break it"))
        if answer.status == "sat" and answer.model is not None:
            found = {name: answer.model[name] for name in self.names}
            detail = "z3 found it" + (
                "" if answer.smallest else ", and ran out of time before showing that it is the smallest"
            )
            proof = Proof(ProofKind.SMT, 0, detail)
            return CheckResult("breaks", proof, found, self._near(found), answer.smallest)
        return self._sampled(answer.why)

    def _near(self, point: Assignment) -> Assignment | None:
        """The satisfying assignment nearest to ``point``, else the smallest that z3 finds."""
        wanted = [self.condition, *self.given]
        with suppress(OverflowError):
            near = nearest_fitting(wanted, self.box, point)
            if near is not None:
                return near
        count = tuple_count(self.names, self.box)
        if count is not None and count <= MOST_TUPLES:
            grid = Grid.of(self.names, self.box)
            return grid.nearest(grid.holds(wanted), point)
        answer = smt.find(wanted, self.box, self.limit_s, least=True)
        return None if answer.model is None else {name: answer.model[name] for name in self.names}

    def _sampled(self, why: str) -> CheckResult:
        """Try ends and random points; a failure among them is certain, their success proves nothing."""
        names, chooser = self.names, Random(0)  # the same points in every run
        candidates = {name: _candidates(self.box[name], chooser) for name in names}
        corners = islice(product(*(candidates[name][:6] for name in names)), SAMPLES)
        points = [dict(zip(names, values, strict=True)) for values in corners]
        points += [{name: chooser.choice(candidates[name]) for name in names} for _ in range(SAMPLES)]
        premise = all_of(self.given)
        failing: list[dict[str, int]] = []
        fitting: list[dict[str, int]] = []
        for point in points:
            with suppress(OverflowError):
                if holds(premise, point):
                    (fitting if holds(self.condition, point) else failing).append(point)
        tried = len(failing) + len(fitting)
        if not failing:
            proof = Proof(ProofKind.SAMPLED, tried, f"{tried:,} values tried, none breaks it; not proven: {why}")
            return CheckResult("unknown", proof, None, fitting[0] if fitting else None, smallest=False)
        found = min(failing, key=lambda point: (max(point.values()), tuple(point.values())))
        near = min(fitting, key=lambda p: sum(abs(p[name] - found[name]) for name in names), default=None)
        detail = f"found among {tried:,} values tried; a smaller one may exist: {why}"
        return CheckResult("breaks", Proof(ProofKind.SAMPLED, tried, detail), found, near, smallest=False)


def _holds_by_exact_bounds(condition: Condition, cache: BoundsCache) -> bool:
    match condition:
        case Compare(relation, left, right):
            found = cache.of(sub(left, right)).range
            return decided(relation, (found.min, found.max)) is True
        case And(args):
            return all(_holds_by_exact_bounds(arg, cache) for arg in args)
        case Or(args):
            return any(_holds_by_exact_bounds(arg, cache) for arg in args)
        case _:
            return False


def _candidates(range_: Range, chooser: Random) -> list[int]:
    low = range_.min if range_.min is not None else min(-64, (range_.max or 0) - 64)
    high = range_.max if range_.max is not None else max(low + (1 << 20), 1 << 20)
    ends = [low, high, min(low + 1, high), max(high - 1, low), min(low + 2, high), min(low + 3, high)]
    near = list(range(low, min(low + 300, high + 1)))
    return ends + near + [chooser.randint(low, high) for _ in range(200)]


def always_defined(node: Expr | Condition, box: Mapping[str, Range]) -> bool:
    """Whether ``node`` is seen to be defined at all points of ``box`` (False where that is not seen)."""
    return is_total(node) or _defined(node, BoundsCache(box))


def shown_by_bounds(condition: Condition, box: Mapping[str, Range]) -> bool:
    """Whether the bounds of both sides alone show that ``condition`` holds in the whole box."""
    return bool(BoundsCache(box).intervals.decide(condition)) and always_defined(condition, box)


def _defined(node: Expr | Condition, cache: BoundsCache) -> bool:
    if is_total(node):
        return True
    match node:
        case FloorDiv(_, right) | Mod(_, right) | TrueDiv(_, right):
            found = cache.of(right).range
            above, below = found.min is not None and found.min > 0, found.max is not None and found.max < 0
            if not (above or below) or not is_integer(right):
                return False
        case Pow(_, exponent) if not (isinstance(exponent, Num) and exponent.value >= 0):
            least = cache.of(exponent).range.min
            if least is None or least < 0 or not is_integer(exponent):
                return False
        case _:
            pass
    return all(_defined(child, cache) for child in children(node))
