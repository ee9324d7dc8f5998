"""Sizes that the whole program takes, to show beside one that it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trtdiag.dims.facts import Constraint, DimSystem
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import Program
from trtdiag.symbolic import Range, Sym, evaluate, free_symbols, holds, to_text

# How far from a refused size its neighbours are tried; periods in real models are far shorter.
_REACH = 512


def working_sizes(program: Program, dims: DimSystem, broken: Constraint) -> Mapping[str, int]:
    """Sizes of the dims in ``broken``, in the user's names, that satisfy every guard over them.

    A neighbour of the refused size where one dim is concerned, else the example.  Empty where neither is known.
    A constraint's own witness is not enough: another guard may refuse it.
    """
    if len(broken.symbols) == 1:
        (symbol,) = broken.symbols
        found = _neighbour(program, dims, symbol, broken.refused.get(symbol))
        if found is not None:
            return named_sizes(Sites(program), {symbol: found})
    example = {symbol: program.hints[symbol] for symbol in broken.symbols if symbol in program.hints}
    complete = len(example) == len(broken.symbols)
    return named_sizes(Sites(program), example) if complete and _accepted(dims, example) else {}


def _neighbour(program: Program, dims: DimSystem, symbol: str, refused: int | None) -> int | None:
    if refused is None:
        return None
    declared = program.ranges.get(symbol, Range(0, None))
    for distance in range(1, _REACH + 1):
        for size in (refused - distance, refused + distance):
            if size > 0 and size in declared and _accepted(dims, {symbol: size}):
                return size
    return None


def _accepted(dims: DimSystem, sizes: Mapping[str, int]) -> bool:
    return all(holds(c.condition, sizes) for c in dims.constraints if sizes.keys() >= set(c.symbols))


def named_sizes(sites: Sites, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes as a counterexample shows them: a derived root's as the size of the dim that is made of it."""
    named: dict[str, int] = {}
    for symbol, size in sizes.items():
        made = next((dim for dim in sites.sized_by(symbol) if free_symbols(dim.expr) == {symbol}), None)
        if made is None:
            named[sites.name_of(symbol)] = size
        else:
            named[sites.label(made)] = int(evaluate(made.expr, {symbol: size}))
    return named


def derived_dims(program: Program, symbols: Iterable[str]) -> tuple[str, ...]:
    """``x.shape[3] = 4*_w`` for each dim that is derived from one of these symbols."""
    sites = Sites(program)
    dims = dict.fromkeys(dim for symbol in symbols for dim in sites.sized_by(symbol) if not isinstance(dim.expr, Sym))
    made = [(dim.site, to_text(dim.expr, sites.names)) for dim in dims]
    return tuple(f"{site} = {text}" for site, text in made if text != site)
