"""The dims table: every dim of every input, what was declared, what is allowed, what to declare."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.dims.facts import Constraint, DimRow, DimSuggestion, Pinned, UnparsedGuard, Verdict
from trtdiag.dims.solved_sets import Solved
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import InputDim
from trtdiag.symbolic import bounds, free_symbols
from trtdiag.symbolic.expr import Sym
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.valueset import ValueSet


def dim_rows(
    sites: Sites,
    solved: Solved,
    constraints: Sequence[Constraint],
    unread: Sequence[UnparsedGuard],
    suggestions: Sequence[DimSuggestion],
    pins: Sequence[Pinned],
) -> tuple[DimRow, ...]:
    """One row for each dim, inputs in order."""
    suggested_at = {site: suggestion.spelled for suggestion in suggestions for site in suggestion.sites}
    pinned_at = {pin.site: pin.value for pin in pins}
    admitted = {symbol: _admitted(symbol, solved, constraints) for symbol in solved.box}
    # What is compared with a number from data refuses no declared size: the program asks when it runs.
    given = {symbol for dim in sites.dims for symbol in free_symbols(dim.expr)}
    own = [constraint for constraint in constraints if given.issuperset(constraint.symbols)]
    causes = [c for c in own if c.verdict is Verdict.BREAKS and not (c.only_at_zero or c.follows)]
    breaking = {symbol for constraint in causes for symbol in constraint.symbols}
    doubts = {
        "undecided": {s for c in own if c.verdict is Verdict.UNKNOWN for s in c.symbols},
        # One of which it is not known what it speaks of may be about any size.
        "unread": set[str]().union(*(given if each.about is None else each.about for each in unread)),
    }

    def row(dim: InputDim) -> DimRow:
        value = pinned_at.get(dim.site, sites.static(dim))
        if value is not None:
            pinned = dim.site in pinned_at
            said, state = dim.declared or ("dynamic" if pinned else ""), "pinned" if pinned else "static"
            return DimRow(dim.site, None, said, Range(value, value), str(value), "", state)
        symbols = free_symbols(dim.expr)
        symbol = next(iter(symbols)) if len(symbols) == 1 else None
        range_ = bounds(dim.expr, {s: solved.box.get(s, Range(0, None)) for s in symbols}).range
        doubt = next((state for state, about in doubts.items() if about & symbols), "ok")
        state = "breaks" if breaking & symbols else "unbounded" if range_.max is None else doubt
        admits = admitted.get(symbol) if symbol is not None and isinstance(dim.expr, Sym) else None
        allowed = str(range_) if admits is None or symbol is None else admits.describe(sites.name_of(symbol))
        suggested = suggested_at.get(dim.site, "")
        return DimRow(dim.site, symbol, dim.declared or "", range_, allowed, suggested, state, admits)

    return tuple(map(row, sites.dims))


def _admitted(symbol: str, solved: Solved, constraints: Sequence[Constraint]) -> ValueSet | None:
    broken = tuple(c.condition for c in constraints if c.symbols == (symbol,) and c.verdict is Verdict.BREAKS)
    if not broken:
        return None
    solution = solved.all(symbol, broken)
    return None if solution is None else solution.values
