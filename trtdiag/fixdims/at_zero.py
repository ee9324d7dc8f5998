"""Sizes of 0, which nobody asked for and torch admits where a Dim has no minimum."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.dims.solver_input import dims_in, system_of
from trtdiag.fixdims.export_result import Tried
from trtdiag.frontend.real_run import BESIDE_MODEL, RealRunner
from trtdiag.symbolic.expr import Sym

MOST_AT_ZERO = 4
"""Dims that are looked at.  Own choice: each is one more run."""


def unlike_at_zero(runner: RealRunner, tried: Tried, plan: Plan) -> Iterator[str]:
    """Say where the program gives something at a size of 0 that its model does not.

    torch traces as if no size were 0, and writes that into the program's ranges where a ``Dim`` has no ``min=``.
    """
    open_ = {definition.name for definition in plan.defs if definition.range.min in (None, 0)}
    sites: dict[str, str] = {}
    for dim, leaf in dims_in(tried.inputs, plan):
        plain = leaf.kind is LeafKind.DIM and (leaf.scale, leaf.offset) == (1, 0)
        if plain and leaf.root in open_ and isinstance(dim.expr, Sym):
            sites.setdefault(dim.expr.name, dim.site)
    example = {symbol: tried.hints[symbol] for symbol in system_of(tried.inputs, plan).box if symbol in tried.hints}
    for symbol, site in list(sites.items())[:MOST_AT_ZERO]:
        words = runner.run({**example, symbol: 0}).words
        if words.startswith(BESIDE_MODEL):
            yield f"at {site} = 0, which a Dim without min= admits, {words}: declare it with min=1"
