"""Dims that were declared apart and that the program forces to be equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trtdiag.dims.facts import Constraint, GuardOrigin, Tied
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import InputDim, Join
from trtdiag.grouping import grouped
from trtdiag.symbolic.expr import Compare, Relation, Sym


def tied(constraints: Sequence[Constraint], sites: Sites, joins: Sequence[Join] = ()) -> tuple[Tied, ...]:
    """Groups of dims with different declarations and one size.

    Torch reports such a pair only when both are plain Dims; a guard with two symbols goes into the program in
    silence, and dims of hints (``Dim.AUTO``) share a symbol without a word.
    """
    found = []
    by_size = grouped((dim.expr, dim) for dim in sites.dims)
    for expr, dims in by_size.items():
        names = {dim.declared_name for dim in dims if dim.declared_name is not None}
        if isinstance(expr, Sym) and len(names) > 1:
            found.append(replace(_tie(dims, None), origin=_origin(dims, joins)))
    for constraint in constraints:
        condition = constraint.condition
        asked = constraint.origin.asked is not None  # a finding of its own
        if asked or not isinstance(condition, Compare) or condition.relation is not Relation.EQ:
            continue
        sides = [by_size.get(side) for side in (condition.left, condition.right) if isinstance(side, Sym)]
        firsts = [dims[0] for dims in sides if dims]
        if len(firsts) == 2:
            found.append(_tie(firsts, constraint))
    return tuple(found)


def _origin(dims: Sequence[InputDim], joins: Sequence[Join]) -> GuardOrigin | None:
    """The guard that made these dims one symbol, where tracing still shows it."""
    among = {dim.site for dim in dims}
    join = next((join for join in joins if among.issuperset(join.sites)), None)
    return None if join is None else GuardOrigin(("ShapeEnv",), join.stack)


def _tie(dims: Sequence[InputDim], constraint: Constraint | None) -> Tied:
    lows = [dim.declared_range.min for dim in dims if dim.declared_range is not None]
    known = [low for low in lows if low is not None]
    return Tied(
        tuple(dim.site for dim in dims),
        tuple(dim.declared or dim.site for dim in dims),
        constraint,
        min(known) if known else 0,
    )
