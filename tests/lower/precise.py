"""Programs in half precision, checked in every way that holds for all of them."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.lower.agreement import ends, inputs_at, lowered_of, user_outputs
from trtdiag.frontend.program import Program
from trtdiag.lower.lowered_facts import Lowered, PrecisionFacts
from trtdiag.lower.metadata_recheck import recheck
from trtdiag.lower.precision.apply import with_precision
from trtdiag.options import Precision

DTYPES = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}


def precise(source: Any, precision: Precision = Precision.FP16, keep: tuple[str, ...] = ()) -> tuple[Lowered, Program]:
    """The program in half precision, in good order: values, roles, no double cast."""
    after, _, program = _precise(source, precision, keep)
    return after, program


def _precise(source: Any, precision: Precision, keep: tuple[str, ...]) -> tuple[Lowered, Lowered, Program]:
    """The program in half precision and as it was before, and where both came from."""
    program, before = lowered_of(source)
    dtypes = {node.name: _dtype(node) for node in before.graph_module.graph.nodes}
    after = with_precision(before, precision, keep)
    assert {node.name: _dtype(node) for node in before.graph_module.graph.nodes} == dtypes  # left as it was
    graph = after.graph_module.graph
    graph.lint()
    assert recheck(after.graph_module, program.hints).suspects == []
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    assert [node.name for node in placeholders] == [spec.arg.name for spec in after.signature.input_specs]
    assert all(node.name in after.tensors or node.name in dtypes for node in placeholders)
    casts = [node for node in graph.nodes if node.target is torch.ops.aten._to_copy.default]
    pairs = [(node.args[0], node.kwargs.get("dtype")) for node in casts]
    assert len(set(pairs)) == len(pairs)  # one cast of a tensor to a dtype
    assert all(node.name in after.origins for node in graph.nodes if node.op == "call_function")
    return after, before, program


def facts(lowered: Lowered) -> PrecisionFacts:
    assert lowered.precision is not None
    return lowered.precision


def reasons(lowered: Lowered) -> dict[str, str]:
    """Why ops stay in float32, by op (of several calls the last)."""
    return {each.target: each.why for each in facts(lowered).stays}


def dtype_at(lowered: Lowered, op: str) -> set[torch.dtype]:
    """The dtypes that the calls of an op yield."""
    found = [n for n in lowered.graph_module.graph.nodes if n.op == "call_function" and op in str(n.target)]
    assert found, op
    return {_dtype(node) for node in found}


def operand_dtypes(lowered: Lowered, op: str) -> list[torch.dtype]:
    """The dtypes of the float tensors that the only call of an op takes."""
    (node,) = [n for n in lowered.graph_module.graph.nodes if n.op == "call_function" and op in str(n.target)]
    return [d for d in map(_dtype, node.all_input_nodes) if d is not None and d.is_floating_point]


def assert_close(source: Any, precision: Precision, rtol: float, atol: float, keep: tuple[str, ...] = ()) -> Lowered:
    """Run beside float32 at the example and at the ends of the ranges; outputs are finite and keep their dtypes."""
    after, before, program = _precise(source, precision, keep)
    args, kwargs = source[1], source[2] if len(source) > 2 else {}
    flat = pytree.tree_leaves((args, kwargs))
    with torch.no_grad():
        for given in (flat, *(inputs_at(program, flat, point) for point in ends(program))):
            wanted, got = user_outputs(before, given), user_outputs(after, given)
            for one, other in zip(wanted, got, strict=True):
                assert one.dtype == other.dtype
                assert bool(other.isfinite().all())
                torch.testing.assert_close(other, one, rtol=rtol, atol=atol)
    return after


def _dtype(node: torch.fx.Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None
