"""Whether each condition holds over the declared ranges; which broken ones are causes, and which only follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trtdiag.dims.facts import Constraint, GuardOrigin, Verdict
from trtdiag.dims.joint_conditions import try_all
from trtdiag.dims.solved_sets import Solved
from trtdiag.dims.solver.shares import share_held
from trtdiag.frontend.dim_sites import Sites
from trtdiag.symbolic import Proof, ProofKind, Range, ValueSet, check, evaluate, free_symbols, substitute, to_text
from trtdiag.symbolic.defined import shown_by_bounds
from trtdiag.symbolic.expr import Condition, Expr

Hints = Mapping[str, int]


def judge(
    conditions: Mapping[Condition, GuardOrigin],
    solved: Solved,
    hints: Hints,
    sites: Sites,
    tied: Mapping[str, Expr] | None = None,
) -> list[Constraint]:
    """A Constraint for every condition, in the given order.

    ``tied`` are symbols that are declared with the Dim of another: what several such symbols must satisfy together is
    judged where they fit together, and nowhere else was asked for.

    Conditions on one symbol are solved exactly.  A joint condition is judged where those hold: one that breaks only
    at values which another already refuses is marked ``follows``, for it goes away with the other, and reporting it
    would bury the cause.
    """
    box = solved.box
    judged: dict[Condition, Constraint] = {}
    for condition, origin in conditions.items():
        symbols = free_symbols(condition)
        if not symbols or any(symbol not in box for symbol in symbols):
            judged[condition] = _open(condition, origin, box, sites)
        elif len(symbols) == 1:
            judged[condition] = _single(condition, origin, solved, hints, sites)
        elif (together := _together(condition, tied or {})) != condition:
            judged[condition] = _of_one_dim(condition, together, origin, solved, hints, sites)
    judged = {c.condition: c for c in _mark_followers(list(judged.values()), solved)}
    causes = [c for c in judged.values() if c.verdict is Verdict.BREAKS and not c.follows]
    for condition, origin in conditions.items():
        if condition not in judged:
            judged[condition] = _joint(condition, origin, solved, causes, hints, sites)
    return [_shared_out(judged[condition], box) for condition in conditions]


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


def _of_one_dim(
    condition: Condition, together: Condition, origin: GuardOrigin, solved: Solved, hints: Hints, sites: Sites
) -> Constraint:
    """The verdict of ``together``, which says what ``condition`` asks of sizes that one Dim declares."""
    symbols = free_symbols(together)
    if not symbols or any(symbol not in solved.box for symbol in symbols):
        judged = _open(together, origin, solved.box, sites)
    elif len(symbols) == 1:
        judged = _single(together, origin, solved, hints, sites)
    else:
        judged = _joint(together, origin, solved, (), hints, sites)
    text, names = to_text(condition, sites.names), tuple(sorted(free_symbols(condition)))
    return replace(judged, condition=condition, text=text, symbols=names)


def _open(condition: Condition, origin: GuardOrigin, box: Mapping[str, Range], sites: Sites) -> Constraint:
    """A condition on a symbol without a declared range: data decides, and the program checks it when it runs."""
    symbols = tuple(sorted(free_symbols(condition)))
    unknown = ", ".join(sites.name_of(symbol) for symbol in symbols if symbol not in box)
    detail = f"{unknown} has no declared range: checked when the program runs" if unknown else "it has no symbols"
    verdict = Verdict.UNKNOWN
    if not symbols:
        verdict = Verdict.HOLDS if evaluate(condition, {}) else Verdict.BREAKS
    proof = Proof(ProofKind.NONE if symbols else ProofKind.EXHAUSTIVE, 0 if symbols else 1, detail)
    text = to_text(condition, sites.names)
    return Constraint(condition, text, symbols, origin, verdict, proof, {}, {}, "", None)


def _single(condition: Condition, origin: GuardOrigin, solved: Solved, hints: Hints, sites: Sites) -> Constraint:
    (symbol,) = free_symbols(condition)
    solution = solved.one(symbol, condition)
    if not solution.proof.proven:
        return _checked(condition, origin, solved, hints, sites)
    values, range_ = solution.values, solved.box[symbol]
    text = to_text(condition, sites.names)
    if values.is_full:
        return Constraint(condition, text, (symbol,), origin, Verdict.HOLDS, solution.proof, {}, {}, "", None)
    smallest = values.complement().min
    breaking = {} if smallest is None else {symbol: smallest}
    below = None if smallest is None else values.at_most(smallest)
    nearest = below if below is not None else None if smallest is None else values.at_least(smallest)
    words, kept = _words(values, sites.name_of(symbol), range_)
    return Constraint(
        condition=condition,
        text=text,
        symbols=(symbol,),
        origin=origin,
        verdict=Verdict.BREAKS,
        proof=solution.proof,
        counterexample=_named(breaking, sites),
        witness=_named({} if nearest is None else {symbol: nearest}, sites),
        allowed=words,
        kept=kept,
        refused=breaking,
        only_at_zero=range_.min == 0 and values.within(Range(1, range_.max)).is_full,
    )


def _checked(condition: Condition, origin: GuardOrigin, solved: Solved, hints: Hints, sites: Sites) -> Constraint:
    symbols = tuple(sorted(free_symbols(condition)))
    here = {symbol: solved.box[symbol] for symbol in symbols}
    result = check(condition, here, {s: hints[s] for s in symbols if s in hints}, limit_s=solved.limit_s)
    verdict = Verdict(result.verdict)
    return Constraint(
        condition=condition,
        text=to_text(condition, sites.names),
        symbols=symbols,
        origin=origin,
        verdict=verdict,
        proof=result.proof,
        counterexample=_named(result.counterexample or {}, sites),
        witness=_named(result.witness or {}, sites),
        allowed="",
        kept=None,
        refused=result.counterexample or {},
        only_at_zero=verdict is Verdict.BREAKS and _only_at_zero(condition, here, solved),
    )


def _only_at_zero(condition: Condition, box: Mapping[str, Range], solved: Solved) -> bool:
    if not any(r.min == 0 for r in box.values()):
        return False
    above = {s: Range(1, r.max) if r.min == 0 else r for s, r in box.items()}
    return (
        not any(r.empty for r in above.values()) and check(condition, above, limit_s=solved.limit_s).verdict == "holds"
    )


def _named(values: Mapping[str, int], sites: Sites) -> dict[str, int]:
    """Symbol values as the user sees them: a derived root's as the size of the dim that is made of it."""
    named: dict[str, int] = {}
    for symbol, value in values.items():
        users = [dim for dim in sites.sized_by(symbol) if free_symbols(dim.expr) == {symbol}]
        if users:
            dim = users[0]
            named[sites.label(dim)] = int(evaluate(dim.expr, {symbol: value}))
        else:
            named[sites.name_of(symbol)] = value
    return named


def _words(values: ValueSet, name: str, range_: Range) -> tuple[str, tuple[int, int] | None]:
    count, asked = values.count, range_.count
    words = values.describe(name)
    if count is None or asked is None:
        return words, None
    return f"{words}: {count} of {asked} values", (count, asked)


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
        if rest and _intersection(rest) == reached:
            causes.remove(i)
    return causes


def _intersection(sets: Sequence[ValueSet]) -> ValueSet:
    result = sets[0]
    for other in sets[1:]:
        result = result.intersect(other)
    return result


def _joint(
    condition: Condition,
    origin: GuardOrigin,
    solved: Solved,
    causes: Sequence[Constraint],
    hints: Hints,
    sites: Sites,
) -> Constraint:
    symbols = tuple(sorted(free_symbols(condition)))
    mine = [c.condition for c in causes if c.symbols[0] in symbols]
    sets = {s: solved.all(s, [c for c in mine if free_symbols(c) == {s}]) for s in symbols}
    values = {s: ValueSet.full(solved.box[s]) if found is None else found.values for s, found in sets.items()}
    ends = {s: Range(v.min, v.max if v.count is not None else None) for s, v in values.items()}
    if shown_by_bounds(condition, ends):
        proof = Proof(ProofKind.MONOTONE, 0, "the bounds of both sides show it")
        return Constraint(
            condition, to_text(condition, sites.names), symbols, origin, Verdict.HOLDS, proof, {}, {}, "", None
        )
    tried = try_all(condition, values)
    if tried is None:
        constraint = _checked(condition, origin, solved, hints, sites)
        if constraint.verdict is Verdict.HOLDS or not mine:
            return constraint
        rest = check(condition, {s: solved.box[s] for s in symbols}, given=mine, limit_s=solved.limit_s)
        return replace(constraint, follows=rest.verdict == "holds")
    where = "with the conditions on each alone" if mine else "over the declared ranges"
    proof = Proof(ProofKind.EXHAUSTIVE, tried.points, f"all {tried.points} combinations tried, {where}")
    text = to_text(condition, sites.names)
    if tried.counterexample is None:
        everywhere = try_all(condition, {s: ValueSet.full(solved.box[s]) for s in symbols}) if mine else tried
        held = Constraint(condition, text, symbols, origin, Verdict.HOLDS, proof, {}, {}, "", None)
        if everywhere is None or everywhere.counterexample is None:
            return held
        shown = _named(everywhere.counterexample, sites), _named(everywhere.witness or {}, sites)
        return replace(held, verdict=Verdict.BREAKS, counterexample=shown[0], witness=shown[1], follows=True)
    above = {s: v.within(Range(1, solved.box[s].max)) for s, v in values.items() if solved.box[s].min == 0}
    only_at_zero = False
    if above:
        without = try_all(condition, {**values, **above})
        only_at_zero = without is not None and without.counterexample is None
    return Constraint(
        condition=condition,
        text=text,
        symbols=symbols,
        origin=origin,
        verdict=Verdict.BREAKS,
        proof=proof,
        counterexample=_named(tried.counterexample, sites),
        witness=_named(tried.witness or {}, sites),
        allowed="",
        kept=None,
        only_at_zero=only_at_zero,
        refused=tried.counterexample,
    )
