"""Whether each condition holds over the declared ranges; which broken ones are causes, and which only follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from trtdiag.dims.compare_plans import counted_words, kept_of
from trtdiag.dims.facts import Constraint, GuardOrigin, Verdict
from trtdiag.dims.joint_conditions import try_all
from trtdiag.dims.solved_sets import Solved
from trtdiag.dims.solver.constraint_losses import share_held
from trtdiag.frontend.dim_sites import Sites
from trtdiag.symbolic import Proof, ProofKind, Range, ValueSet, check, evaluate, free_symbols, substitute, to_text
from trtdiag.symbolic.check import shown_by_bounds
from trtdiag.symbolic.expr import Condition, Expr


@dataclass(frozen=True)
class Judge:
    """Judges the conditions of one program.

    Attributes:
        solved: What conditions on one symbol allow.
        hints: Symbol -> the example's size.
        sites: The input dims.
    """

    solved: Solved
    hints: Mapping[str, int]
    sites: Sites

    def judged(
        self, conditions: Mapping[Condition, GuardOrigin], tied: Mapping[str, Expr] | None = None
    ) -> list[Constraint]:
        """A Constraint for every condition, in the given order.

        ``tied`` are symbols that are declared with the Dim of another: what several such symbols must satisfy together
        is judged where they fit together, and nowhere else was asked for.

        Conditions on one symbol are solved exactly.  A joint condition is judged where those hold: one that breaks only
        at values which another already refuses is marked ``follows``, for it goes away with the other, and reporting it
        would bury the cause.
        """
        judged: dict[Condition, Constraint] = {}
        for condition, origin in conditions.items():
            together = _together(condition, tied or {})
            if not self.known(condition) or len(free_symbols(condition)) == 1:
                judged[condition] = self.alone(condition, origin)
            elif together != condition:
                # It says what the condition asks of sizes that one Dim declares.
                plain = not self.known(together) or len(free_symbols(together)) == 1
                found = self.alone(together, origin) if plain else self.joint(together, origin, ())
                judged[condition] = replace(found, **self.words_of(condition))
        judged = {c.condition: c for c in _mark_followers(list(judged.values()), self.solved)}
        causes = [c for c in judged.values() if c.verdict is Verdict.BREAKS and not c.follows]
        for condition, origin in conditions.items():
            if condition not in judged:
                judged[condition] = self.joint(condition, origin, causes)
        return [_shared_out(judged[condition], self.solved.box) for condition in conditions]

    def known(self, condition: Condition) -> bool:
        """Whether it has symbols, and all of them have declared ranges."""
        symbols = free_symbols(condition)
        return bool(symbols) and symbols <= self.solved.box.keys()

    def words_of(self, condition: Condition) -> dict[str, Any]:
        """What a constraint says of its condition."""
        symbols = tuple(sorted(free_symbols(condition)))
        return {"condition": condition, "text": to_text(condition, self.sites.names), "symbols": symbols}

    def constraint(
        self,
        condition: Condition,
        origin: GuardOrigin,
        verdict: Verdict,
        proof: Proof,
        refused: Mapping[str, int] | None = None,
        witness: Mapping[str, int] | None = None,
        **more: Any,
    ) -> Constraint:
        """A constraint; values are by symbol."""
        return Constraint(
            **self.words_of(condition),
            origin=origin,
            verdict=verdict,
            proof=proof,
            counterexample=self.named(refused or {}),
            witness=self.named(witness or {}),
            refused=refused or {},
            **more,
        )

    def named(self, values: Mapping[str, int]) -> dict[str, int]:
        """Symbol values as the user sees them: a derived root's as the size of the dim that is made of it."""
        named: dict[str, int] = {}
        for symbol, value in values.items():
            users = [dim for dim in self.sites.sized_by(symbol) if free_symbols(dim.expr) == {symbol}]
            if users:
                named[self.sites.label(users[0])] = int(evaluate(users[0].expr, {symbol: value}))
            else:
                named[self.sites.name_of(symbol)] = value
        return named

    def alone(self, condition: Condition, origin: GuardOrigin) -> Constraint:
        """The verdict on a condition of one symbol, or of none with a declared range, which data decides."""
        if self.known(condition):
            return self.single(condition, origin)
        symbols = sorted(free_symbols(condition))
        if not symbols:
            verdict = Verdict.HOLDS if evaluate(condition, {}) else Verdict.BREAKS
            return self.constraint(condition, origin, verdict, Proof(ProofKind.EXHAUSTIVE, 1, "it has no symbols"))
        unknown = ", ".join(self.sites.name_of(symbol) for symbol in symbols if symbol not in self.solved.box)
        detail = f"{unknown} has no declared range: checked when the program runs"
        return self.constraint(condition, origin, Verdict.UNKNOWN, Proof(ProofKind.NONE, 0, detail))

    def single(self, condition: Condition, origin: GuardOrigin) -> Constraint:
        """The verdict on a condition of one symbol, by its exact set where that is known."""
        (symbol,) = free_symbols(condition)
        solution = self.solved.one(symbol, condition)
        if not solution.proof.proven:
            return self.checked(condition, origin)
        values, range_ = solution.values, self.solved.box[symbol]
        if values.is_full:
            return self.constraint(condition, origin, Verdict.HOLDS, solution.proof)
        smallest = values.complement().min
        nearest = None
        if smallest is not None:
            below = values.at_most(smallest)
            nearest = values.at_least(smallest) if below is None else below
        return self.constraint(
            condition,
            origin,
            Verdict.BREAKS,
            solution.proof,
            {} if smallest is None else {symbol: smallest},
            {} if nearest is None else {symbol: nearest},
            allowed=counted_words(values, self.sites.name_of(symbol)),
            kept=kept_of(ValueSet.full(range_), values),
            only_at_zero=range_.min == 0 and values.within(Range(1, range_.max)).is_full,
        )

    def checked(self, condition: Condition, origin: GuardOrigin) -> Constraint:
        """The verdict by whatever shows it."""
        here = {symbol: self.solved.box[symbol] for symbol in sorted(free_symbols(condition))}
        example = {symbol: self.hints[symbol] for symbol in here if symbol in self.hints}
        result = check(condition, here, example, limit_s=self.solved.limit_s)
        verdict = Verdict(result.verdict)
        at_zero = verdict is Verdict.BREAKS and self.only_at_zero(condition, here)
        return self.constraint(
            condition, origin, verdict, result.proof, result.counterexample, result.witness, only_at_zero=at_zero
        )

    def only_at_zero(self, condition: Condition, box: Mapping[str, Range]) -> bool:
        """Whether a condition that breaks holds wherever no size is 0."""
        above = {s: Range(1, range_.max) if range_.min == 0 else range_ for s, range_ in box.items()}
        if above == box or any(range_.empty for range_ in above.values()):
            return False
        return check(condition, above, limit_s=self.solved.limit_s).verdict == "holds"

    def joint(self, condition: Condition, origin: GuardOrigin, causes: Sequence[Constraint]) -> Constraint:
        """The verdict on a condition of several symbols, where the causes hold."""
        box = {symbol: self.solved.box[symbol] for symbol in sorted(free_symbols(condition))}
        mine = [c.condition for c in causes if c.symbols and c.symbols[0] in box]
        sets = {s: self.solved.all(s, [c for c in mine if free_symbols(c) == {s}]) for s in box}
        values = {s: ValueSet.full(box[s]) if found is None else found.values for s, found in sets.items()}
        ends = {s: Range(v.min, v.max if v.count is not None else None) for s, v in values.items()}
        if shown_by_bounds(condition, ends):
            proof = Proof(ProofKind.MONOTONE, 0, "the bounds of both sides show it")
            return self.constraint(condition, origin, Verdict.HOLDS, proof)
        tried = try_all(condition, values)
        if tried is None:
            constraint = self.checked(condition, origin)
            if constraint.verdict is Verdict.HOLDS or not mine:
                return constraint
            rest = check(condition, box, given=mine, limit_s=self.solved.limit_s)
            return replace(constraint, follows=rest.verdict == "holds")
        where = "with the conditions on each alone" if mine else "over the declared ranges"
        proof = Proof(ProofKind.EXHAUSTIVE, tried.points, f"all {tried.points} combinations tried, {where}")
        if tried.counterexample is None:
            everywhere = try_all(condition, {s: ValueSet.full(box[s]) for s in box}) if mine else tried
            if everywhere is None or everywhere.counterexample is None:
                return self.constraint(condition, origin, Verdict.HOLDS, proof)
            seen = self.constraint(
                condition, origin, Verdict.BREAKS, proof, everywhere.counterexample, everywhere.witness, follows=True
            )
            return replace(seen, refused={})
        above = {s: v.within(Range(1, box[s].max)) for s, v in values.items() if box[s].min == 0}
        without = try_all(condition, {**values, **above}) if above else None
        at_zero = without is not None and without.counterexample is None
        return self.constraint(
            condition, origin, Verdict.BREAKS, proof, tried.counterexample, tried.witness, only_at_zero=at_zero
        )


def _shared_out(constraint: Constraint, box: Mapping[str, Range]) -> Constraint:
    """With the share of sizes that satisfy it, where it is a cause."""
    if constraint.verdict is not Verdict.BREAKS:
        return constraint
    kept = constraint.kept
    exact = None if kept is None or kept[1] == 0 else kept[0] / kept[1]
    return replace(constraint, share=share_held(constraint.condition, box) if exact is None else exact)


def _together(condition: Condition, tied: Mapping[str, Expr]) -> Condition:
    """``condition`` with the symbols of one Dim as one, where several of its symbols belong to it."""
    inside = {symbol: size for symbol, size in tied.items() if symbol in free_symbols(condition)}
    roots = [root for size in inside.values() for root in free_symbols(size)]
    shared = len(roots) > len(set(roots)) or any(root in free_symbols(condition) for root in roots)
    return substitute(condition, dict(inside)) if shared else condition


def _mark_followers(constraints: Sequence[Constraint], solved: Solved) -> list[Constraint]:
    """Per symbol, keep as causes the fewest, shortest broken conditions that refuse all that is refused."""
    marked = list(constraints)
    for symbol in dict.fromkeys(c.symbols[0] for c in constraints if len(c.symbols) == 1):
        broken = [i for i, c in enumerate(marked) if c.symbols == (symbol,) and c.verdict is Verdict.BREAKS]
        exact = [i for i in broken if solved.one(symbol, marked[i].condition).proof.proven]
        exact.sort(key=lambda i: (marked[i].only_at_zero, _line_rank(marked[i]), len(marked[i].text)))
        for i in set(exact) - set(_causes(exact, {i: solved.one(symbol, marked[i].condition).values for i in exact})):
            marked[i] = replace(marked[i], follows=True)
    return marked


def _line_rank(constraint: Constraint) -> int:
    """A Python condition of the user's says best what is asked, an op at a known line next."""
    if constraint.origin.branch and constraint.origin.stack.user is not None:
        return 0
    return 1 if constraint.origin.stack.best is not None else 2


def _causes(order: Sequence[int], sets: Mapping[int, ValueSet]) -> list[int]:
    causes: list[int] = []
    reached: ValueSet | None = None
    for i in order:
        joined = sets[i] if reached is None else reached.intersect(sets[i])
        if reached is None or joined != reached:
            causes.append(i)
            reached = joined
    for i in reversed(causes[:]):  # a later, tighter condition can make an earlier one superfluous
        rest = [sets[j] for j in causes if j != i]
        if rest and reduce(ValueSet.intersect, rest) == reached:
            causes.remove(i)
    return causes
