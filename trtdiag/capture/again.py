"""An exported program as something to export again."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from trtdiag.capture.factory import Recipe
from trtdiag.capture.program import Program
from trtdiag.symbolic import evaluate


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
