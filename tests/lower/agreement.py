"""Runs a lowered graph beside the program that it came from, at the example and at the ends of the ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from tests.random_cases import all_is_run
from trtdiag.frontend.capture import capture
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import Program
from trtdiag.frontend.read_guards import read_guard
from trtdiag.lower.lowered import lower
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.lower.metadata import check_metadata
from trtdiag.lower.preserved_ops import keeps_by_default
from trtdiag.symbolic import evaluate, free_symbols, holds
from trtdiag.symbolic.expr import Num

# A symbol without an upper bound, or with a far one, is tried this far above its example.
FAR = 9
# Decompositions sum in another order than the kernels of whole ops: a few units of float32's last place, relative to
# values of about 1, times the length of the longest reductions here.
RTOL, ATOL = 2e-4, 2e-5


def lowered_of(source: Any, keep: Any = keeps_by_default) -> tuple[Program, Lowered]:
    program = source if isinstance(source, Program) else capture(source)
    return program, lower(program, check_metadata(program), keep)


def keep_nothing(op: object) -> bool:
    del op
    return False


def ends(program: Program, most: int = 4) -> Iterator[dict[str, int]]:
    """Corners of the ranges that every guard allows."""
    sites = Sites(program)
    conditions = [read_guard(guard, sites) for guard in program.guards]
    choices = []
    used = {name for tensor in program.inputs for dim in tensor.dims for name in free_symbols(dim.expr)}
    for symbol in sorted(used):
        allowed = program.ranges[symbol]
        low = max(1, allowed.min or 0)
        near = program.hints.get(symbol, low) + FAR
        choices.append([(symbol, low), (symbol, near if allowed.max is None else min(allowed.max, near))])
    found = 0
    for corner in product(*choices):
        point = dict(corner)
        if all(holds(c, point) for c in conditions if free_symbols(c) <= point.keys()) and found < most:
            found += 1
            yield point


def inputs_at(program: Program, example: list[Any], point: Mapping[str, int]) -> list[Any]:
    """Flat inputs of the sizes at ``point``, with values from the example's range."""
    made: list[Any] = []
    for leaf, tensor in zip(example, program.inputs, strict=True):
        dynamic = isinstance(leaf, torch.Tensor) and any(not isinstance(dim.expr, Num) for dim in tensor.dims)
        if not dynamic:
            made.append(leaf)
            continue
        sizes = [int(evaluate(dim.expr, point)) for dim in tensor.dims]
        if leaf.dtype == torch.bool:
            made.append(torch.ones(sizes, dtype=torch.bool))
        elif leaf.dtype.is_floating_point or leaf.is_complex():
            made.append(torch.randn(sizes, dtype=leaf.dtype) * leaf.std().nan_to_num(1.0))
        else:
            made.append(torch.randint(int(leaf.min()), int(leaf.max()) + 1, sizes, dtype=leaf.dtype))
    return made


def copies(values: Any) -> Any:
    return pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, values)


def user_outputs(lowered: Lowered, flat: list[Any]) -> list[Any]:
    returned = lowered.graph_module(*lowered.arguments(copies(flat)))
    specs = lowered.signature.output_specs
    return [value for value, spec in zip(returned, specs, strict=True) if spec.kind is OutputKind.USER_OUTPUT]


def called(program: torch.nn.Module, spec: Any, flat: list[Any]) -> list[Any]:
    args, kwargs = pytree.tree_unflatten(copies(flat), spec)
    return pytree.tree_leaves(program(*args, **kwargs))


def assert_same(got: list[Any], wanted: list[Any], rtol: float = RTOL, atol: float = ATOL) -> None:
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        if isinstance(theirs, torch.Tensor):
            assert ours.dtype == theirs.dtype
            torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
        else:
            assert ours == theirs


def assert_lowered_agrees(
    exported: ExportedProgram,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    keep: Any = keeps_by_default,
    beside_torch: bool = True,
) -> tuple[Program, Lowered]:
    """Lower and compare; ``beside_torch`` compares with ``run_decompositions()`` too, at the example.

    The quick run does without the latter, which takes as long as the export: the original has said the same.
    """
    program, lowered = lowered_of(exported, keep)
    flat, spec = pytree.tree_flatten((args, kwargs or {}))
    original = exported.module()
    with torch.no_grad():
        assert_same(user_outputs(lowered, flat), called(original, spec, flat))
        if beside_torch and all_is_run():
            assert_same(user_outputs(lowered, flat), called(exported.run_decompositions().module(), spec, flat))
        for point in ends(program):
            there = inputs_at(program, flat, point)
            assert_same(user_outputs(lowered, there), called(original, spec, there))
    return program, lowered


def targets(lowered: Lowered) -> set[str]:
    return {str(node.target) for node in lowered.graph_module.graph.nodes if node.op == "call_function"}
