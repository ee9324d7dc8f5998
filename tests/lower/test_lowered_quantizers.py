"""Quantizers in one spelling, what is computed of weights once, and what half precision makes of them."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from tests.harness.quantizing_ops import DECOMPOSED, MODEL_OPTIMIZER
from tests.harness.symmetric_quantizer import quantized
from tests.lower.agreement import assert_lowered_agrees, lowered_of
from tests.lower.precise import precise
from trtdiag.convert.registry import has_converter
from trtdiag.lower.lowered_facts import Lowered

DIMS = ({0: Dim("batch", min=1, max=9)},)
X = (torch.randn(3, 6),)


class Fake(nn.Module):
    """Fake quantization as quantization-aware training leaves it."""

    def __init__(self, *, optimizer: bool) -> None:
        super().__init__()
        self.optimizer = optimizer
        self.inner = nn.Linear(6, 4)
        greatest = self.inner.weight.detach().abs().amax(1)
        self.register_buffer("scales", greatest / 127)
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int32))
        self.register_buffer("amax", greatest.reshape(4, 1))
        self.register_buffer("range", torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        if self.optimizer:
            x = MODEL_OPTIMIZER(x, self.range, 8, 0, False, False)
            weight = MODEL_OPTIMIZER(self.inner.weight, self.amax, 8, 0, False, True)
        else:
            x = torch.fake_quantize_per_tensor_affine(x, 2 / 127, 0, -128, 127)
            weight = torch.fake_quantize_per_channel_affine(self.inner.weight, self.scales, self.zeros, 0, -127, 127)
        return nn.functional.linear(x, weight, self.inner.bias)


def ops(lowered: Lowered) -> Counter[str]:
    calls = [node for node in lowered.graph_module.graph.nodes if node.op == "call_function"]
    return Counter(str(node.target) for node in calls if node.target is not operator.getitem)


def held(lowered: Lowered) -> list[torch.dtype]:
    return [tensor.dtype for node, tensor in lowered.held().items() if node.users]


# Quick: PyTorch's own.
@pytest.mark.parametrize("optimizer", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("taken_apart", [pytest.param(False, marks=pytest.mark.slow), True])
def test_fake_quantization_becomes_two_ops_and_weights_of_int8(optimizer: bool, taken_apart: bool) -> None:
    # Torch's fake quantization has no kernel for sizes that are symbols.
    exported = export(Fake(optimizer=optimizer).eval(), X, dynamic_shapes=DIMS if optimizer else None)
    if taken_apart:
        exported = exported.run_decompositions()
    _, lowered = lowered_of(exported, has_converter)
    found = ops(lowered)
    assert not [name for name in found if "fake" in name or "tensorrt" in name]
    assert found["quantized_decomposed.dequantize_per_channel.default"] == 1
    assert sum(count for name, count in found.items() if ".quantize_per_tensor" in name) == 1
    assert sum(count for name, count in found.items() if ".quantize_per_channel" in name) == 0
    assert held(lowered).count(torch.int8) == 1
    assert_lowered_agrees(exported, X, keep=has_converter, beside_torch=False)


def test_a_mask_that_is_read_stays_beside_its_op() -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y, mask = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, -128, 127)
            return y, mask

    _, lowered = lowered_of(export(Masked(), X))
    assert ops(lowered) == {"aten.fake_quantize_per_tensor_affine_cachemask.default": 1}


def test_dequantized_weights_are_not_folded_and_quantized_ones_are() -> None:
    class Weights(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6))
            self.register_buffer("few", torch.ones(4, 6, dtype=torch.int8))

        def forward(self, x: Tensor) -> Tensor:
            how = (0.02, 0, -128, 127, torch.int8)
            weight = DECOMPOSED.dequantize_per_tensor(DECOMPOSED.quantize_per_tensor(self.weight, *how), *how)
            return x @ weight.T + x @ self.few.T.float()

    exported = export(Weights(), X, dynamic_shapes=DIMS)
    _, lowered = lowered_of(exported, has_converter)
    found = ops(lowered)
    assert found["quantized_decomposed.dequantize_per_tensor.default"] == 1
    assert found["quantized_decomposed.quantize_per_tensor.default"] == 0
    assert any(name.startswith(("aten._to_copy", "aten.to.")) for name in found), found
    assert held(lowered).count(torch.int8) == 2
    assert_lowered_agrees(exported, X, keep=has_converter, beside_torch=False)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.other(self.one(x).relu())


def _floats(lowered: Lowered, part: str) -> dict[str, Any]:
    nodes = [node for node in lowered.graph_module.graph.nodes if part in str(node.target)]
    return {node.name: node.meta["val"].dtype for node in nodes}


@pytest.mark.slow  # quick: test_what_is_kept_in_float32_is_dequantized_to_it
def test_half_precision_is_what_is_dequantized_to_and_scales_keep_their_digits() -> None:
    half, _ = precise(quantized(Two().eval(), X, {"x": DIMS[0]}))
    back = _floats(half, ".dequantize")
    assert len(back) == 4
    assert set(back.values()) == {torch.float16}
    assert set(_floats(half, ".quantize").values()) == {torch.int8}
    quantizers = [node for node in half.graph_module.graph.nodes if ".quantize" in str(node.target)]
    assert {node.args[0].meta["val"].dtype for node in quantizers} == {torch.float16}
    scales = [node for node in half.graph_module.graph.nodes if "weight_scales" in node.name]
    assert {node.meta["val"].dtype for node in scales} == {torch.float32}


def test_what_is_kept_in_float32_is_dequantized_to_it() -> None:
    half, _ = precise(quantized(Two().eval(), X, {"x": DIMS[0]}), keep=("aten.linear",))
    assert set(_floats(half, ".dequantize").values()) == {torch.float32}
