"""An exported program as something to export again: its module, example inputs and declared dims."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from trtdiag.capture.factory import Recipe
from trtdiag.capture.program import Program
from trtdiag.dims.suggest import identifier
from trtdiag.fixdims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.fixdims.system import affine
from trtdiag.symbolic import evaluate
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
                definitions[symbol] = DimDef(_free(name, definitions), _said(program.ranges.get(symbol, Range())))
            whole = (scale, offset) == (1, 0)
            name = "" if whole else identifier(dim.site)
            leaves[dim.site] = Leaf(LeafKind.DIM, definitions[symbol].name, scale, offset, name=name)
    return Plan(tuple(definitions.values()), leaves)


def _said(range_: Range) -> Range:
    """The range without the 0 that torch writes where no minimum was given."""
    return Range(None if range_.min == 0 else range_.min, range_.max)


def _free(name: str, taken: dict[str, DimDef]) -> str:
    names = {definition.name for definition in taken.values()}
    number, free = 2, name
    while free in names:
        free, number = f"{name}_{number}", number + 1
    return free


def program_recipe(program: Program) -> Recipe | None:
    """The program's module with its example inputs, or with zeros of the example's sizes where it has kept none.

    ``None`` where an input that is no tensor is not known.
    """
    exported = program.exported
    if exported is None:
        return None
    if exported.example_inputs is not None:
        args, kwargs = exported.example_inputs
        return Recipe(exported.module(), tuple(args), dict(kwargs or {}), None)
    leaves: list[Any] = []
    for tensor in program.inputs:
        if tensor.dtype is None:
            return None
        try:
            sizes = [int(evaluate(dim.expr, program.hints)) for dim in tensor.dims]
        except KeyError:
            return None
        leaves.append(torch.zeros(sizes, dtype=tensor.dtype))
    args, kwargs = pytree.tree_unflatten(leaves, exported.call_spec.in_spec)
    return Recipe(exported.module(), tuple(args), dict(kwargs), None)
