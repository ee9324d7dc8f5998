"""An exported program as something to export again."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.inputs import user_arguments
from trtdiag.frontend.program import Program
from trtdiag.symbolic import evaluate


def program_recipe(program: Program) -> Recipe | None:
    """The program's module with its example inputs, or with zeros of the example's sizes where it has kept none.

    ``None`` where an input that is no tensor is not known.
    """
    example = example_of(program)
    if program.exported is None or example is None:
        return None
    return Recipe(_callable(program.exported), *example, None)


def example_of(program: Program) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The example inputs of a program as ``(args, kwargs)``, or zeros of their sizes where it has kept none.

    ``None`` where there is no program, or an input that is no tensor is not known.
    """
    exported = program.exported
    if exported is None:
        return None
    if exported.example_inputs is not None:
        args, kwargs = exported.example_inputs
        return tuple(args), dict(kwargs or {})
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
    return tuple(args), dict(kwargs)


_REST = re.compile(r"(\w+)\[\d+\]")


def _callable(exported: ExportedProgram) -> torch.nn.Module:
    """The program's module, its ``forward`` with the parameters of the user's where they are known.

    torch gives it one parameter for each argument (``rest_0``), while the program's inputs go by the user's names
    (``rest[0]`` of ``*rest``): what is declared for one has to be found for the other.
    """
    module = exported.module()
    names = user_arguments(exported)
    if names is None or not any(_REST.fullmatch(name) for name in names):
        return module
    keywords = list(inspect.signature(module.forward).parameters)[len(names) :]
    forward = module.forward

    def called(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    called.__signature__ = _signature(names, keywords)  # type: ignore[attr-defined]  # inspect.signature reads it
    module.forward = called
    return module


def _signature(names: Sequence[str], keywords: Sequence[str]) -> inspect.Signature:
    kinds = inspect.Parameter
    found: dict[str, inspect.Parameter] = {}
    for name in names:
        rest = _REST.fullmatch(name)
        plain, kind = (rest[1], kinds.VAR_POSITIONAL) if rest else (name, kinds.POSITIONAL_OR_KEYWORD)
        found.setdefault(plain, kinds(plain, kind))
    found.update({name: kinds(name, kinds.KEYWORD_ONLY) for name in keywords})
    return inspect.Signature(list(found.values()))
