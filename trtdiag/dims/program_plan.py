"""The dims that an exported program was declared with."""

from __future__ import annotations

from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.frontend.dim_names import free_name, identifier
from trtdiag.frontend.program import Program
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.expr import Num, Sym
from trtdiag.symbolic.ranges import Range


def program_plan(program: Program) -> Plan:
    """The dims that a program was exported with, named after the inputs they size: a file keeps no names of Dims."""
    definitions: dict[str, DimDef] = {}
    leaves: dict[str, Leaf] = {}
    for tensor in program.inputs:
        for dim in tensor.dims:
            line = affine(dim.expr)
            if isinstance(dim.expr, Num):
                continue
            if line is None or line[1] < 1:
                leaves[dim.site] = Leaf(LeafKind.AUTO)
                continue
            symbol, scale, offset = line
            if symbol not in definitions:
                name = identifier(program.names.get(symbol, dim.site))
                name = name if isinstance(dim.expr, Sym) or name.startswith("_") else f"_{name}"
                name = free_name(name, {definition.name for definition in definitions.values()})
                definitions[symbol] = DimDef(name, _said(program.ranges.get(symbol, Range())))
            whole = (scale, offset) == (1, 0)
            name = "" if whole else identifier(dim.site)
            leaves[dim.site] = Leaf(LeafKind.DIM, definitions[symbol].name, scale, offset, name=name)
    return Plan(tuple(definitions.values()), leaves)


def _said(range_: Range) -> Range:
    """The range without the 0 that torch writes where no minimum was given."""
    return Range(None if range_.min == 0 else range_.min, range_.max)
