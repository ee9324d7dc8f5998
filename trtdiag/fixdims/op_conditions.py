"""What ops ask of sizes, carried from the export that showed it to another export of the same model.

An export that torch refuses has conditions and no graph: what its ops ask is known only once a later one has passed.
"""

from __future__ import annotations

from dataclasses import replace

from trtdiag.fixdims.export_result import Tried
from trtdiag.symbolic import free_symbols, normalise, substitute
from trtdiag.symbolic.conditions import TRUE
from trtdiag.symbolic.expr import Expr, Sym


def with_asked(tried: Tried, later: Tried) -> Tried:
    """``tried`` with what ops ask in ``later``, where each size there is an input's size here."""
    here = {dim.site: dim.expr for tensor in tried.inputs for dim in tensor.dims}
    values: dict[str, Expr] = {}
    for tensor in later.inputs:
        for dim in tensor.dims:
            if isinstance(dim.expr, Sym) and dim.site in here:
                values.setdefault(dim.expr.name, here[dim.site])
    conditions = dict(tried.conditions)
    for condition, origin in later.conditions.items():
        if origin.asked is not None and free_symbols(condition) <= values.keys():
            carried = normalise(substitute(condition, values))
            if carried != TRUE:
                conditions.setdefault(carried, origin)
    return replace(tried, conditions=conditions)
