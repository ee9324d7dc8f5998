"""Dims left to torch (``Dim.AUTO``, ``Dim.DYNAMIC``) whose range tracing narrowed without a word, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtdiag.dims.facts import Constraint, Narrowed, Verdict
from trtdiag.dims.solver_input import LOWEST_HINTED, UNBACKED
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import InputDim, Program
from trtdiag.symbolic import ValueSet, allowed
from trtdiag.symbolic.expr import Sym
from trtdiag.symbolic.ranges import Range


def narrowed(program: Program, constraints: Sequence[Constraint], sites: Sites) -> tuple[Narrowed, ...]:
    """Each condition that brings an end of a hinted dim's range nearer than asked.

    torch keeps no condition that a declared range implies.  So where nothing is known of the declaration (a saved
    program), a condition that gives an end of the range says that tracing set it, not the user.
    """
    return tuple(found for dim in _hinted(sites) for found in _ends(dim, program, constraints))


def _hinted(sites: Sites) -> Iterator[InputDim]:
    """The first dim of each symbol that no named Dim sizes, nor a ShapesSpec (torch 2.14), which narrows nothing."""
    named = {dim.expr for dim in sites.dims if dim.declared_name is not None or dim.declared_root is not None}
    seen = set(named)
    for dim in sites.dims:
        if not isinstance(dim.expr, Sym) or UNBACKED.fullmatch(dim.expr.name):
            continue
        if dim.dynamic is not False and dim.expr not in seen:
            seen.add(dim.expr)
            yield dim


def _ends(dim: InputDim, program: Program, constraints: Sequence[Constraint]) -> Iterator[Narrowed]:
    symbol = dim.expr.name if isinstance(dim.expr, Sym) else ""
    now = program.ranges.get(symbol)
    said = dim.declared_range or Range()
    asked = Range(LOWEST_HINTED if said.min is None else said.min, said.max)
    if now is None or now.empty:
        return
    own = [c for c in constraints if c.symbols == (symbol,) and c.verdict is Verdict.HOLDS and c.origin.asked is None]
    sets = [(c, values) for c in own if (values := _allowed(c, symbol, asked)) is not None and not values.is_full]
    for end, was, is_now in (("max", asked.max, now.max), ("min", asked.min, now.min)):
        bounds = [(c, values.max if end == "max" else values.min) for c, values in sets]
        for cause, bound in bounds:
            if bound is not None and bound != was:
                yield Narrowed(dim.site, dim.declared or "", end, bound, bound == is_now, asked, now, dim.hint, cause)


def _allowed(constraint: Constraint, symbol: str, asked: Range) -> ValueSet | None:
    solution = allowed((constraint.condition,), symbol, asked)
    return solution.values if solution.proof.proven else None
