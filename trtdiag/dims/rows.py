"""The dims table: every dim of every input, what was declared, what is allowed, what to declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtdiag.dims.facts import Constraint, DimRow, DimSuggestion, Pinned, Verdict
from trtdiag.dims.solved_sets import Solved
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import InputDim
from trtdiag.symbolic import bounds, free_symbols
from trtdiag.symbolic.expr import Sym
from trtdiag.symbolic.ranges import Range


def dim_rows(
    sites: Sites,
    solved: Solved,
    constraints: Sequence[Constraint],
    suggestions: Sequence[DimSuggestion],
    pins: Sequence[Pinned],
) -> tuple[DimRow, ...]:
    """One row for each dim, inputs in order."""
    suggested_at = {site: suggestion.spelled for suggestion in suggestions for site in suggestion.sites}
    pinned_at = {pin.site: pin for pin in pins}
    box = solved.box
    words = {symbol: _allowed(symbol, solved, constraints, sites) for symbol in box}
    return tuple(_row(dim, box, constraints, suggested_at, pinned_at, words, sites) for dim in sites.dims)


def _row(
    dim: InputDim,
    box: Mapping[str, Range],
    constraints: Sequence[Constraint],
    suggested_at: Mapping[str, str],
    pinned_at: Mapping[str, Pinned],
    words: Mapping[str, str],
    sites: Sites,
) -> DimRow:
    pin = pinned_at.get(dim.site)
    value = sites.static(dim)
    if pin is not None:
        return DimRow(
            dim.site, None, dim.declared or "dynamic", Range(pin.value, pin.value), str(pin.value), "", "pinned"
        )
    if value is not None:
        return DimRow(dim.site, None, dim.declared or "", Range(value, value), str(value), "", "static")
    symbols = free_symbols(dim.expr)
    symbol = next(iter(symbols)) if len(symbols) == 1 else None
    range_ = bounds(dim.expr, {s: box.get(s, Range(0, None)) for s in symbols}).range
    broken = any(
        c.verdict is Verdict.BREAKS and not (c.only_at_zero or c.follows) and set(c.symbols) & symbols
        for c in constraints
    )
    state = "breaks" if broken else "unbounded" if range_.max is None else "ok"
    suggested = suggested_at.get(dim.site, "")
    said = words.get(symbol or "", "") if isinstance(dim.expr, Sym) else ""
    return DimRow(dim.site, symbol, dim.declared or "", range_, said or str(range_), suggested, state)


def _allowed(symbol: str, solved: Solved, constraints: Sequence[Constraint], sites: Sites) -> str:
    broken = tuple(c.condition for c in constraints if c.symbols == (symbol,) and c.verdict is Verdict.BREAKS)
    if not broken:
        return ""
    solution = solved.all(symbol, broken)
    return "" if solution is None else solution.values.describe(sites.name_of(symbol))
