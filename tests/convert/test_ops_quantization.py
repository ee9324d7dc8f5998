"""Quantizing and dequantizing, op by op, exactly: also at ties, at both ends and beyond."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import trtdiag
from tests.convert.op_check import OLD_THEN_NEW, Outcome, check_op
from tests.harness.quantizing_ops import DECOMPOSED, MODEL_OPTIMIZER
from trtdiag.convert.registry import converters

INF = float("inf")
INT8, UINT8 = (-128, 127, torch.int8), (0, 255, torch.uint8)
SCALE = 0.25
# All steps and the middles between them; a scale that is a power of two makes each product exact, and each tie a tie.
TIES = torch.arange(-261, 262).reshape(1, 523) * (SCALE / 2)
FAR = torch.tensor([[INF, -INF, 3e38, -3e38, 1e-30, -0.0, 127.5 * SCALE, -128.5 * SCALE]])
X = torch.cat([TIES, FAR], 1)
PER_TENSOR = DECOMPOSED.quantize_per_tensor


def kinds(outcome: Outcome) -> list[str]:
    assert outcome.converted is not None, outcome.limits
    return [placed.layer.kind for placed in outcome.converted.network.layers]


def equal(expected: Tensor, actual: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0.0, atol=0.0)


def check(op: Any, *args: Any, **more: Any) -> list[str]:
    return kinds(check_op(op, args, compare=equal, **more))


@pytest.mark.parametrize("target", ["8.6", "11.4"])
def test_int8_with_zero_point_0_is_the_layer(target: str) -> None:
    assert "Quantize" in check(PER_TENSOR.default, X, SCALE, 0, *INT8, target=target)
    assert "Quantize" in check(PER_TENSOR.default, X, SCALE, 0, *INT8, dynamic=True, target=target)


def test_a_least_of_minus_127_is_clamped_before_the_layer() -> None:
    found = check(PER_TENSOR.default, X, SCALE, 0, -127, 127, torch.int8)
    assert found.index("ElementWise") < found.index("Quantize")


@pytest.mark.parametrize("target", OLD_THEN_NEW)
@pytest.mark.parametrize(
    ("zero", "bounds"),
    [(3, INT8), (-128, INT8), (0, UINT8), (117, UINT8), (0, (-64, 63, torch.int8)), (0, (0, 127, torch.int8))],
)
def test_what_the_layer_lacks_is_rounded_and_clamped(zero: int, bounds: Any, target: str) -> None:
    assert "Quantize" not in check(PER_TENSOR.default, X, SCALE, zero, *bounds, target=target)


def test_targets_without_the_layer_round_and_clamp() -> None:
    assert "Quantize" not in check(PER_TENSOR.default, X, SCALE, 0, *INT8, target="rtx-1.4")


@pytest.mark.parametrize("data", [False, True], ids=["constants", "data"])
def test_scales_in_tensors(data: bool) -> None:
    scale, zero = torch.tensor([SCALE]), torch.tensor([0])
    found = check(PER_TENSOR.tensor, X, scale, zero, *INT8, constants=not data, dynamic=not data)
    assert ("Quantize" in found) is not data
    limits = torch.tensor(-128), torch.tensor(127)
    if not data:
        assert "Quantize" in check(
            PER_TENSOR.tensor2, X, scale, zero, *limits, torch.int8, constants=True, dynamic=True
        )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scale_for_each_channel(axis: int) -> None:
    x = torch.cat([TIES, TIES * 0.5, TIES * 2]).reshape(3, 523)
    scales = torch.tensor([0.5, 0.125, 2.0]) if axis == 0 else torch.full((523,), SCALE)
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    for zero in (zeros, zeros + 2):
        check(DECOMPOSED.quantize_per_channel.default, x, scales, zero, axis, *INT8)
        q = (x * 4).round().clamp(-128, 127).to(torch.int8)
        check(DECOMPOSED.dequantize_per_channel.default, q, scales, zero, axis, *INT8)
    check(DECOMPOSED.dequantize_per_channel.default, q, scales, None, axis, *INT8)


def test_numbers_that_come_in_quantized() -> None:
    q = torch.arange(-128, 128, dtype=torch.int16).to(torch.int8).reshape(2, 128)
    for zero in (0, -5):
        check(DECOMPOSED.dequantize_per_tensor.default, q, 0.1, zero, *INT8, dynamic=True)
    check(DECOMPOSED.dequantize_per_tensor.default, q.view(torch.uint8), 0.1, 128, *UINT8, target="8.6")
    scale, zeros = torch.tensor([0.1]), torch.tensor([7])
    check(DECOMPOSED.dequantize_per_tensor.tensor, q, scale, zeros, *INT8)
    limits = torch.tensor(-128), torch.tensor(127)
    check(DECOMPOSED.dequantize_per_tensor.tensor2, q, scale, zeros, *limits, torch.int8, constants=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("target", ["8.6", "11.4"])
def test_fake_quantization(dtype: torch.dtype, target: str) -> None:
    x = X[:, :-6].to(dtype)  # where a product is beyond 2^63, PyTorch's own kernel wraps around
    aten = torch.ops.aten
    if dtype is torch.float32:  # the kernels of a CPU take nothing else
        check(aten.fake_quantize_per_tensor_affine.default, x[:, :-2], SCALE, 0, -128, 127, target=target)
        check(aten.fake_quantize_per_tensor_affine.default, x[:, :-2], SCALE, 9, 0, 255, target=target)
        read = {"read": (0,), "target": target}
        check(aten.fake_quantize_per_tensor_affine_cachemask.default, x[:, :-2], SCALE, 0, -128, 127, **read)
        scales, zeros = torch.tensor([SCALE]), torch.tensor([0], dtype=torch.int32)
        check(aten.fake_quantize_per_tensor_affine.tensor_qparams, x[:, :-2], scales, zeros, -128, 127, target=target)
    amax = torch.tensor(127 * SCALE)
    for narrow in (False, True):
        found = check_op(
            MODEL_OPTIMIZER,
            (x[:, :-2], amax.to(dtype), 8, 0, False, narrow),
            constants=True,
            dynamic=True,
            target=target,
        )
        assert "Quantize" in kinds(found)


@pytest.mark.parametrize("narrow", [False, True])
def test_float8_is_the_layer(narrow: bool) -> None:
    x = torch.linspace(-500, 500, 997).reshape(1, 997)
    more = {"constants": True, "dynamic": True}
    assert "Quantize" in check(MODEL_OPTIMIZER, x, torch.tensor(448.0), 8, 4, False, narrow, **more)
    found = check_op(MODEL_OPTIMIZER, (x, torch.tensor(448.0), 8, 4, False, narrow), target="8.6", constants=True)
    assert {limit.code for limit in found.limits.values()} == {"float8-missing"}


@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_weights_of_few_bits(target: str) -> None:
    q = torch.arange(-128, 128).to(torch.int8).reshape(4, 64)
    scales, zeros = torch.tensor([0.1, 0.02, 3.0, 1e-6]), torch.zeros(4, dtype=torch.int64)
    op = DECOMPOSED.dequantize_per_channel.default
    x = torch.randn(5, 64)
    for zero in (zeros, zeros + 3):
        check(op, q, scales, zero, 0, *INT8, constants=True, target=target)
    four = q.clamp(-8, 7)
    blocks = torch.rand(4, 2) + 0.1
    group = DECOMPOSED.dequantize_per_channel_group.default
    found = check(
        group, four, blocks, torch.zeros(4, 2), -8, 7, torch.int8, 32, torch.float32, constants=True, target=target
    )
    assert ("Dequantize" in found) is (target != "8.6")
    check(group, four, blocks, torch.ones(4, 2), -8, 7, torch.int8, 32, torch.float32, constants=True, target=target)
    del x


@pytest.mark.parametrize("inner", [0, 1, 511, 513, 1025])
@pytest.mark.parametrize("constants", [False, True], ids=["data", "weights"])
def test_products_of_int8_are_exact(inner: int, constants: bool) -> None:
    left = torch.randint(-128, 128, (17, inner), dtype=torch.int8)
    right = torch.randint(-128, 128, (inner, 8), dtype=torch.int8)
    left[0], right[:, 0] = -128, -128
    check(torch.ops.aten._int_mm.default, left, right, constants=constants, dynamic=constants)


@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_weights_of_int8_that_pytorch_multiplies_itself(target: str) -> None:
    weight = torch.randint(-128, 128, (24, 64), dtype=torch.int8)
    found = check_op(
        torch.ops.aten._weight_int8pack_mm.default,
        (torch.randn(17, 64), weight, torch.rand(24) + 0.1),
        tolerance=(1e-5, 1e-3),  # of sums of up to 1000, in another order
        constants=True,
        dynamic=torch.__version__ >= "2.12",  # 2.11 does not record that both have as many to sum over
        target=target,
    )
    assert ("Dequantize" in kinds(found)) is (target != "8.6")


FLOAT8 = torch.float8_e4m3fn


@pytest.mark.parametrize("bias", [None, torch.randn(48)], ids=["alone", "bias"])
@pytest.mark.parametrize("scales", ["one", "rows"])
def test_products_of_float8(scales: str, bias: Tensor | None) -> None:
    left, right = torch.randn(17, 64).to(FLOAT8), torch.randn(48, 64).to(FLOAT8).t()
    if scales == "rows" and torch.__version__ < "2.12":
        pytest.skip("torch 2.11 has one scale for a tensor on CPUs")
    by_row = (torch.rand(17, 1) + 0.1, torch.rand(1, 48) + 0.1)
    given = by_row if scales == "rows" else (torch.tensor(0.5), torch.tensor(0.25))
    check_op(torch.ops.aten._scaled_mm.default, (left, right, *given, bias, None, torch.float32), constants=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_cast_to_float8_is_the_layer(dtype: torch.dtype) -> None:
    # Ties of every magnitude, the least numbers, zeros, and what is greater than float8 holds.
    steps = torch.arange(0, 16).float() / 16 + 1
    x = torch.cat([steps * 2.0**power for power in range(-11, 10)])
    x = torch.cat([x, -x, torch.tensor([0.0, -0.0, 448.0, 463.0, 464.0, 480.0, 6e4, -6e4])]).reshape(1, -1)
    if torch.__version__ < "2.12":  # it makes NaN of what float8 does not hold, TensorRT the greatest number
        x = x[:, x[0].abs() <= 464.0]

    def rounded(x: Tensor) -> Tensor:
        return x.to(FLOAT8).to(torch.float32)

    exported = torch.export.export(_Of(rounded), (x.to(dtype),))
    compiled = trtdiag.compile(exported, target="11.4", backend="reference", min_segment_ops=0)
    assert compiled.report.analysis.compilation.engines
    equal(rounded(x.to(dtype)), compiled(x.to(dtype)))


class _Of(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu"])
def test_packed_weights_stay_and_the_reason_says_what_to_do(name: str) -> None:
    packed = torch.zeros((8, 1, 32, 4), dtype=torch.int32)
    if name.endswith("cpu"):
        packed = torch.zeros((64, 64), dtype=torch.uint8)
    op, scales = getattr(torch.ops.aten, name).default, torch.ones(1, 64, 2, dtype=torch.bfloat16)
    x = torch.randn(4, 128, dtype=torch.bfloat16)
    exported = torch.export.export(_Of(lambda x: op(x, packed, 128, scales)), (x,))
    (found,) = [each for each in trtdiag.analyze(exported, target="11.4").findings if each.rule == "OPS501"]
    assert "packed for its own kernel" in found.evidence[0].fact
    assert found.fix is not None
    assert "IntxWeightOnlyConfig" in found.fix.title


def _refused(op: Any, *args: Any, **more: Any) -> set[str]:
    return {limit.code for limit in check_op(op, args, **more).limits.values()}


def test_what_is_refused_is_told() -> None:
    held = {"constants": True, "dynamic": True}
    assert _refused(PER_TENSOR.default, X, 0.0, 0, *INT8) == {"quantizer-scale"}
    float8 = (-448, 448, torch.float8_e4m3fn)
    assert _refused(PER_TENSOR.default, X, SCALE, 0, *float8) == {"float8-rounding"}
    assert _refused(PER_TENSOR.default, X, SCALE, 0, -(2**31), 2**31 - 1, torch.int32) == {"quantizer-form"}
    several = torch.rand(1, X.shape[1]) + 1, 3, 0, False, False
    assert _refused(
        MODEL_OPTIMIZER, X.reshape(1, -1).expand(2, -1), several[0].expand(2, -1), *several[1:], **held
    ) == {"quantizer-form"}
    assert _refused(MODEL_OPTIMIZER, X, torch.tensor(1.0), 8, 0, False, False) == {"quantizer-scale"}


def test_every_converter_is_tried_here() -> None:
    tried = {"quantize_per_tensor", "quantize_per_channel", "dequantize_per_tensor", "dequantize_per_channel"}
    tried |= {"dequantize_per_channel_group", "quantize_op", "_int_mm", "_weight_int8pack_mm", "_scaled_mm"}
    tried |= {f"fake_quantize_per_{what}_affine{mask}" for what in ("tensor", "channel") for mask in ("", "_cachemask")}
    # Fake quantization of channels, which has no kernel for fake tensors, is in tests/lower/test_lowered_quantizers.py;
    # ops of torchao are in tests/compiling/test_torchao_programs.py.
    tried |= {f"{step}_affine_float8_non_decomposed" for step in ("quantize", "dequantize")}
    family = {found.op.split(".")[1] for found in converters().values() if found.family == "quantization"}
    assert family == tried
