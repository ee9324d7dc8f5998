"""What is read of quantizers: their scales, zero points, bounds and what shares a scale."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from tests.harness.quantizing_ops import DECOMPOSED, MODEL_OPTIMIZER
from tests.harness.rows import each
from trtdiag.graph.quantizer import Grain, Step, is_symmetric, scales_of
from trtdiag.graph.quantizers import is_dequantizer, is_quantizer_node, makes_floats, quantizer_of, rounds_tensors

INT8 = (-128, 127, torch.int8)
ZEROS = torch.zeros(3, dtype=torch.int64)
SCALES = torch.tensor([0.5, 0.25, 2.0])


def call(op: Any, x: torch.Tensor, *args: Any) -> tuple[Node, dict[Node, torch.Tensor]]:
    """A call whose tensors but the first are constants."""
    graph = Graph()
    held: dict[Node, torch.Tensor] = {}
    given: list[Any] = [graph.placeholder("x")]
    given[0].meta["val"] = x
    for number, arg in enumerate(args):
        if isinstance(arg, torch.Tensor):
            node = graph.placeholder(f"c{number}")
            node.meta["val"] = held[node] = arg
            given.append(node)
        else:
            given.append(arg)
    return graph.call_function(op, tuple(given)), held


X = torch.zeros(3, 8)
ROWS: dict[str, tuple[Any, tuple[Any, ...], tuple[Step, Grain, Any, bool]]] = {
    "tensor": (
        DECOMPOSED.quantize_per_tensor.default,
        (0.5, 0, *INT8),
        (Step.QUANTIZE, Grain.TENSOR, torch.tensor(0.5), True),
    ),
    "shifted": (
        DECOMPOSED.dequantize_per_tensor.tensor,
        (torch.tensor([0.5]), torch.tensor([3]), *INT8),
        (Step.DEQUANTIZE, Grain.TENSOR, torch.tensor(0.5), False),
    ),
    "channel": (
        DECOMPOSED.dequantize_per_channel.default,
        (SCALES, ZEROS, 0, *INT8),
        (Step.DEQUANTIZE, Grain.CHANNEL, SCALES, True),
    ),
    "fake": (
        torch.ops.aten.fake_quantize_per_channel_affine.default,
        (SCALES, ZEROS, 0, -127, 127),
        (Step.BOTH, Grain.CHANNEL, SCALES, True),
    ),
    "model optimizer": (
        MODEL_OPTIMIZER,
        (torch.full((3, 1), 127.0), 8, 0, False, False),
        (Step.BOTH, Grain.CHANNEL, torch.ones(3), True),
    ),
    "float8": (
        MODEL_OPTIMIZER,
        (torch.tensor(224.0), 8, 4, False, False),
        (Step.BOTH, Grain.TENSOR, torch.tensor(0.5), True),
    ),
    "blocks": (
        DECOMPOSED.dequantize_per_channel_group.default,
        (SCALES[:, None], torch.zeros(3, 1), -8, 7, torch.int8, 8, torch.float32),
        (Step.DEQUANTIZE, Grain.BLOCK, SCALES[:, None], True),
    ),
}


@each("name", sorted(ROWS))
def test_an_op_is_read(name: str) -> None:
    op, args, (step, grain, scales, symmetric) = ROWS[name]
    node, held = call(op, X, *args)
    found = quantizer_of(node, held.get)
    assert found is not None
    assert (found.step, found.grain, is_symmetric(found)) == (step, grain, symmetric)
    torch.testing.assert_close(scales_of(found), scales.double())
    assert is_quantizer_node(node)
    assert is_dequantizer(op) == makes_floats(node) == (step is Step.DEQUANTIZE) == (not rounds_tensors(node))


def test_bits_and_bounds() -> None:
    node, held = call(MODEL_OPTIMIZER, X, torch.tensor(1.0), 8, 0, True, False)
    unsigned = quantizer_of(node, held.get)
    assert unsigned is not None
    assert (unsigned.least, unsigned.greatest, unsigned.dtype, unsigned.bits) == (0, 255, torch.uint8, 8)
    node, held = call(*[ROWS["blocks"][0], X, *ROWS["blocks"][1]])
    four = quantizer_of(node, held.get)
    assert four is not None
    assert (four.bits, four.block, four.dtype) == (4, 8, torch.int8)


def test_what_is_data_is_not_known() -> None:
    op, args, _ = ROWS["channel"]
    node, _ = call(op, X, *args)
    found = quantizer_of(node)
    assert found is not None
    assert scales_of(found) is None
    assert not is_symmetric(found)


@each("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_useless_scales_are_none(scale: float) -> None:
    node, _ = call(DECOMPOSED.quantize_per_tensor.default, X, scale, 0, *INT8)
    found = quantizer_of(node)
    assert found is not None
    assert scales_of(found) is None


def test_other_ops_are_no_quantizers() -> None:
    node, _ = call(torch.ops.aten.relu.default, X)
    assert quantizer_of(node) is None
    node, held = call(MODEL_OPTIMIZER, X, torch.ones(3, 8), 8, 0, False, False)
    assert quantizer_of(node, held.get) is None  # a scale for each element
