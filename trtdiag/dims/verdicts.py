"""Whether each condition holds over the declared ranges; which broken ones are causes, and which only follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trtdiag.dims.facts import Constraint, GuardOrigin, Verdict
from trtdiag.dims.sites import Sites
from trtdiag.symbolic import allowed, check, evaluate, free_symbols, to_text
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.valueset import ValueSet

Box = Mapping[str, Range]


def judge(
    conditions: Mapping[Condition, GuardOrigin], box: Box, hints: Mapping[str, int], sites: Sites
) -> list[Constraint]:
    """A Constraint for every condition, single-symbol ones first solved, joint ones judged where those hold.

    A joint condition that breaks only at values which a single-symbol condition already refuses is marked
    ``follows``: it goes away with the other, and reporting it would bury the cause.
    """
    singles: list[Constraint] = []
    joint: list[tuple[Condition, GuardOrigin]] = []
    for condition, origin in conditions.items():
        symbols = free_symbols(condition)
        if len(symbols) == 1 and _declared(symbols, box):
            singles.append(_constraint(condition, origin, box, hints, sites))
        else:
            joint.append((condition, origin))
    singles = _mark_followers(singles, box)
    narrowed = _narrowed(singles, box)
    judged = [_joint(condition, origin, box, narrowed, hints, sites) for condition, origin in joint]
    by_condition = {constraint.condition: constraint for constraint in [*singles, *judged]}
    return [by_condition[condition] for condition in conditions]


def _declared(symbols: frozenset[str], box: Box) -> bool:
    return bool(symbols) and all(symbol in box for symbol in symbols)


def _constraint(
    condition: Condition, origin: GuardOrigin, box: Box, hints: Mapping[str, int], sites: Sites
) -> Constraint:
    symbols = tuple(sorted(free_symbols(condition)))
    text = to_text(condition, sites.names)
    if not _declared(frozenset(symbols), box):
        return _open(condition, text, symbols, origin, box)
    here = {symbol: box[symbol] for symbol in symbols}
    result = check(condition, here, {s: hints[s] for s in symbols if s in hints})
    verdict = Verdict(result.verdict)
    words, kept = "", None
    if len(symbols) == 1 and verdict is Verdict.BREAKS:
        solution = allowed((condition,), symbols[0], here[symbols[0]])
        if solution.proof.proven:
            words, kept = _words(solution.values, sites.name_of(symbols[0]), here[symbols[0]])
    return Constraint(
        condition=condition,
        text=text,
        symbols=symbols,
        origin=origin,
        verdict=verdict,
        proof=result.proof,
        counterexample=_named(result.counterexample, sites),
        witness=_named(result.witness, sites),
        allowed=words,
        kept=kept,
        only_at_zero=verdict is Verdict.BREAKS and _only_at_zero(condition, here),
    )


def _open(condition: Condition, text: str, symbols: tuple[str, ...], origin: GuardOrigin, box: Box) -> Constraint:
    """A condition on a symbol without a declared range: data decides, and the program checks it when it runs."""
    unknown = [symbol for symbol in symbols if symbol not in box]
    detail = f"{', '.join(unknown)} has no declared range: checked when the program runs" if unknown else "no symbols"
    verdict = Verdict.UNKNOWN
    if not symbols:
        verdict = Verdict.HOLDS if evaluate(condition, {}) else Verdict.BREAKS
    return Constraint(condition, text, symbols, origin, verdict, Proof(ProofKind.NONE, 0, detail), {}, {}, "", None)


def _only_at_zero(condition: Condition, box: Box) -> bool:
    if not any(r.min == 0 for r in box.values()):
        return False
    above = {s: Range(1, r.max) if r.min == 0 else r for s, r in box.items()}
    return not any(r.empty for r in above.values()) and check(condition, above).verdict == "holds"


def _named(values: Mapping[str, int] | None, sites: Sites) -> dict[str, int]:
    """Symbol values as the user sees them: a derived root's as the size of the dim that is made of it."""
    named: dict[str, int] = {}
    for symbol, value in (values or {}).items():
        users = sites.sized_by(symbol)
        plain = symbol in sites.names and not users
        dim = None if plain or not users else users[0]
        if dim is not None and free_symbols(dim.expr) == {symbol}:
            named[sites.label(dim) if dim.declared_name else dim.site] = int(evaluate(dim.expr, {symbol: value}))
        else:
            named[sites.name_of(symbol)] = value
    return named


def _words(values: ValueSet, name: str, range_: Range) -> tuple[str, tuple[int, int] | None]:
    count, asked = values.count, range_.count
    words = values.describe(name)
    if count is None or asked is None:
        return words, None
    return f"{words}: {count} of {asked} values", (count, asked)


def _mark_followers(constraints: Sequence[Constraint], box: Box) -> list[Constraint]:
    """Per symbol, keep as causes the fewest, shortest broken conditions that refuse all that is refused."""
    marked = list(constraints)
    for symbol in {c.symbols[0] for c in constraints}:
        broken = [i for i, c in enumerate(marked) if c.symbols == (symbol,) and c.verdict is Verdict.BREAKS]
        sets = {i: allowed((marked[i].condition,), symbol, box[symbol]) for i in broken}
        solved = [i for i in broken if sets[i].proof.proven]
        solved.sort(key=lambda i: (marked[i].only_at_zero, len(marked[i].text)))
        if not solved:
            continue
        everything = sets[solved[0]].values
        for i in solved[1:]:
            everything = everything.intersect(sets[i].values)
        causes: list[int] = []
        reached: ValueSet | None = None
        for i in solved:
            joined = sets[i].values if reached is None else reached.intersect(sets[i].values)
            if reached is None or joined != reached:
                causes.append(i)
                reached = joined
            else:
                marked[i] = replace(marked[i], follows=True)
        for i in causes[:]:  # a later, tighter condition can make an earlier one superfluous
            rest = [sets[j].values for j in causes if j != i]
            if rest and _intersection(rest) == everything:
                causes.remove(i)
                marked[i] = replace(marked[i], follows=True)
    return marked


def _intersection(sets: Sequence[ValueSet]) -> ValueSet:
    result = sets[0]
    for other in sets[1:]:
        result = result.intersect(other)
    return result


def _narrowed(singles: Sequence[Constraint], box: Box) -> dict[str, tuple[Condition, ...]]:
    conditions: dict[str, tuple[Condition, ...]] = {}
    for constraint in singles:
        if constraint.verdict is Verdict.BREAKS and not constraint.follows:
            symbol = constraint.symbols[0]
            conditions[symbol] = (*conditions.get(symbol, ()), constraint.condition)
    return conditions


def _joint(
    condition: Condition,
    origin: GuardOrigin,
    box: Box,
    narrowed: Mapping[str, tuple[Condition, ...]],
    hints: Mapping[str, int],
    sites: Sites,
) -> Constraint:
    symbols = free_symbols(condition)
    if not _declared(symbols, box):
        return _constraint(condition, origin, box, hints, sites)
    given = [extra for symbol in symbols for extra in narrowed.get(symbol, ())]
    here = {symbol: box[symbol] for symbol in symbols}
    if given:
        within = check(condition, here, {s: hints[s] for s in symbols if s in hints}, given=given)
        if within.verdict == "holds":
            constraint = _constraint(condition, origin, box, hints, sites)
            return replace(constraint, follows=constraint.verdict is not Verdict.HOLDS)
    return _constraint(condition, origin, box, hints, sites)
