"""Ops that work element by element: each limit and the case just inside it, mixed dtypes, sizes as operands."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.convert.op_check import check_op
from tests.harness.rows import thinned
from tests.random_cases import some
from tests.runtime.compiling import NARROW, compiled

aten = torch.ops.aten
ROWS = torch.linspace(-3, 3, 35).reshape(5, 7)
INTEGERS = torch.tensor([0, 1, -1, 2, -2, 7, -7, 255, 256, -256, 12345, 2**31 - 1, -(2**31)])
LARGE = torch.cat([INTEGERS, torch.tensor([2**62, -(2**62), 2**63 - 1, -(2**63)])])
BYTES = torch.tensor([0, 1, 7, 255], dtype=torch.uint8)
SMALL = torch.tensor([0, 1, -1, 127, -128], dtype=torch.int8)


def _code(op: Any, *args: Any, target: str = "11.4", **kwargs: Any) -> str:
    """The code of the limit that a call hits, empty where it was converted and gave PyTorch's result."""
    limits = check_op(op, args, kwargs, target=target).limits
    return next(iter(limits.values())).code if limits else ""


@pytest.mark.parametrize(
    ("op", "args", "code"),
    [
        (aten.add.Tensor, (BYTES, BYTES), "narrow-integer"),
        (aten.add.Tensor, (BYTES, INTEGERS[:4]), "narrow-integer"),
        (aten.mul.Tensor, (SMALL, SMALL), "narrow-integer"),
        (aten.mul.Tensor, (SMALL, 0.5), "narrow-integer"),
        (aten.eq.Tensor, (BYTES, BYTES), "narrow-integer"),
        (aten.lt.Scalar, (SMALL, 3), "narrow-integer"),
        (aten.signbit.default, (SMALL,), "narrow-integer"),
        (aten.logical_not.default, (BYTES,), "narrow-integer"),
        (aten.where.self, (BYTES > 3, BYTES, BYTES), "narrow-integer"),
        (aten.where.self, (SMALL > 3, SMALL, SMALL), "narrow-integer"),
        (aten._to_copy.default, (INTEGERS,), ""),
        (aten.pow.Tensor_Tensor, (INTEGERS, INTEGERS.abs()), "integer-power"),
        (aten.pow.Tensor_Tensor, (INTEGERS, ROWS.abs()[0, :1]), ""),
        (aten.pow.Scalar, (2, INTEGERS.abs()), "integer-power"),
        (aten.pow.Scalar, (2.5, INTEGERS[:6]), ""),
        (aten.pow.Tensor_Scalar, (INTEGERS, 63), ""),
        (aten.pow.Tensor_Scalar, (INTEGERS, 0), ""),
        (aten.clamp.default, (ROWS, float("nan"), 1.0), "nan-bound"),
        (aten.clamp.default, (ROWS, -float("inf"), 1.0), ""),
        (aten.clamp.default, (ROWS, 2.0, -2.0), ""),  # the bounds cross
        (aten.clamp.default, (ROWS.half(), -1.1, 65504.0), ""),
        (aten.clamp.default, (INTEGERS, -5, 300), ""),
        (aten.hardtanh.default, (INTEGERS, -5, 300), ""),
        (aten.softplus.default, (ROWS, 0.0), "softplus-beta"),
        (aten.softplus.default, (ROWS * 30, 3.0, 5.0), ""),
        (aten.softplus.default, (ROWS * 30, -0.5, 2.0), ""),
        (aten.bitwise_and.Tensor, (INTEGERS, INTEGERS), "integer-bits"),
        (aten.bitwise_and.Tensor, (ROWS > 0, ROWS < 1), ""),
        (aten.bitwise_left_shift.Tensor_Scalar, (LARGE, 64), "shift-amount"),
        (aten.bitwise_left_shift.Tensor_Scalar, (LARGE, -1), "shift-amount"),
        (aten.bitwise_right_shift.Tensor, (LARGE, LARGE.abs() % 60), "shift-amount"),
        (aten.elu.default, (ROWS, 1.3, 0.7, 2.0), ""),
        (aten.elu.default, (ROWS, 1.3, 0.7, -2.0), ""),
        (aten.celu.default, (ROWS.half(), 0.3), ""),
        (aten.celu.default, (ROWS, -2.0), ""),
        (aten.threshold.default, (INTEGERS, 3, -1), ""),
        (aten.logit.default, (torch.linspace(-0.2, 1.2, 15), 0.1), ""),
        (aten.logit.default, (torch.linspace(-0.2, 1.2, 15), 0.7), ""),
        (aten.native_dropout.default, (ROWS, 0.5, None), "random"),
        (aten.dropout.default, (ROWS, 0.5, True), "random"),
        (aten.rrelu.default, (ROWS, 0.1, 0.3, True), "random"),
    ],
    ids=lambda value: str(value) if isinstance(value, (str, torch._ops.OpOverload)) else "",
)
def test_limits_and_their_edges(op: Any, args: tuple[Any, ...], code: str) -> None:
    assert _code(op, *args) == code


def test_rounding_to_decimals() -> None:
    assert _code(aten.round.decimals, INTEGERS, decimals=-1) == "rounded-integer"
    for decimals in (-2, -1, 0, 1, 3):
        assert _code(aten.round.decimals, ROWS * 100, decimals=decimals) == ""


def test_conversions() -> None:
    wide = torch.tensor([0.0, -0.0, 0.9, -0.9, 1.5, 254.99, 255.0, float("nan")])
    for dtype in (torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool):
        source = wide if dtype in (torch.float16, torch.bfloat16, torch.bool) else wide[:-1]  # NaN is no integer
        assert _code(aten._to_copy.default, source, dtype=dtype) == ""
    assert _code(aten._to_copy.default, INTEGERS, dtype=torch.uint8) == "narrow-integer"
    assert _code(aten._to_copy.default, wide[:-1].abs(), dtype=torch.uint8) == ""
    assert _code(aten._to_copy.default, BYTES, dtype=torch.float16) == ""
    assert _code(aten._to_copy.default, BYTES, dtype=torch.int64) == "narrow-integer"
    assert _code(aten._to_copy.default, BYTES, dtype=torch.bool) == "narrow-integer"
    assert _code(aten._to_copy.default, INTEGERS, dtype=torch.int8) == "narrow-integer"
    assert _code(aten._to_copy.default, ROWS > 0, dtype=torch.float16) == ""
    assert _code(aten._to_copy.default, INTEGERS, dtype=torch.int64, target="8.6") == ""  # int32 in the engine


# Quick: each second: both ends, a number of one bit, of several, and of more than 32.
@thinned("mask", [0, 1, -1, 7, 8, 0b101100, -8, -2, 2**31 - 1, 2**62 + 5, 2**63 - 1, -(2**40), -(2**63)], every=2)
def test_bits_with_a_number(mask: int) -> None:
    for op in (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor):
        assert _code(op.Scalar, LARGE, mask) == ""
        assert _code(op.Scalar_Tensor, mask, LARGE) == ""


@pytest.mark.parametrize("places", [0, 1, 30, 31, 62, 63])
def test_shifts(places: int) -> None:
    assert _code(aten.bitwise_left_shift.Tensor_Scalar, LARGE, places) == ""
    assert _code(aten.bitwise_right_shift.Tensor_Scalar, LARGE, places) == ""
    if places < 32:
        assert _code(aten.bitwise_left_shift.Tensor_Scalar, INTEGERS.int(), places, target="8.6") == ""
        assert _code(aten.bitwise_right_shift.Tensor_Scalar, INTEGERS.int(), places, target="8.6") == ""


def test_numbers_that_do_not_fit_are_refused() -> None:
    assert _code(aten.eq.Scalar, INTEGERS, 2**31, target="8.6") == "number-range"
    assert _code(aten.eq.Scalar, INTEGERS, 2**31 - 1, target="8.6") == ""
    assert _code(aten.eq.Scalar, INTEGERS, 2**31) == ""


@pytest.mark.parametrize("number", [1e-9, 3e-8, 6e-5, 7e-5, 65504.0, 1e5])
def test_halves_beside_numbers_that_half_precision_has_no_digits_for(number: float) -> None:
    halves = torch.tensor([0.0, -0.0, 1e-7, 0.1, -3.0, 65504.0, torch.inf]).half()
    for op in (aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar):
        assert _code(op, halves, number, target="8.6") == ""


# Quick: the oldest, which casts by itself.
@pytest.mark.parametrize("target", ["8.6", pytest.param("11.4", marks=pytest.mark.slow)])
def test_mixed_dtypes(target: str) -> None:
    rows = ROWS[:2]
    operands = [rows, rows.half(), (rows * 3).long(), (rows * 3).int(), rows > 0, torch.tensor(2.5), torch.tensor(3)]
    pairs = [(left, right) for left in operands for right in (*operands, 2, 0.5, True)]
    for left, right in some(pairs, 7):  # 7 and 10 to a row: each operand is on each side
        less = aten.lt.Tensor if isinstance(right, torch.Tensor) else aten.lt.Scalar
        for op in (aten.add.Tensor, less):
            assert _code(op, left, right, target=target) == ""


@pytest.mark.parametrize("shape", [(1,), (1, 1), (13, 1, 7), (8193,)])
def test_sizes_one_prime_and_large(shape: tuple[int, ...]) -> None:
    x = torch.linspace(-4, 4, shape[0] * (shape[-1] if len(shape) > 1 else 1)).reshape(shape)
    for op in (aten.gelu.default, aten.log1p.default, aten.trunc.default, aten.glu.default):
        if op is aten.glu.default and shape[0] % 2:
            x = torch.cat([x, x])
        args = (x, 0) if op is aten.glu.default else (x,)
        assert not check_op(op, args, dynamic=True).limits


def test_quotients_of_floats_are_exact() -> None:
    """1.0 // 0.1 is 9: the plain quotient rounds up to 10."""
    tenths = torch.arange(-60, 61) / 10
    left, right = tenths.repeat_interleave(121), tenths.repeat(121)
    for op in (aten.remainder.Tensor, aten.fmod.Tensor, aten.floor_divide.default):
        check_op(op, (left, right), tolerance=(0.0, 0.0))
    for divisor in (0.1, -0.3, 2.0, 0.25, 6.2831855):
        for op in (aten.remainder.Scalar, aten.fmod.Scalar, aten.floor_divide.Scalar):
            check_op(op, (torch.linspace(-1000, 1000, 4001), divisor), tolerance=(0.0, 0.0))


def test_near_zero_no_digits_are_lost() -> None:
    small = torch.logspace(-12, -1, 45)
    for op in (aten.log1p.default, aten.expm1.default):
        check_op(op, (torch.cat([small, -small]),), tolerance=(1e-6, 0.0))


def test_only_the_first_output_of_log_sigmoid_is_written() -> None:
    assert not check_op(aten.log_sigmoid_forward.default, (ROWS,), read=[0]).limits
    assert _code(aten.log_sigmoid_forward.default, ROWS) == "output-unsupported"


def test_operations_are_those_of_the_target() -> None:
    for target, kinds in (("11.4", ["Activation"]), ("8.6", ["Unary", "ElementWise"])):
        converted = check_op(aten.gelu.default, (ROWS,), target=target).converted
        assert converted is not None
        used = [placed.layer.kind for placed in converted.network.layers]
        assert set(kinds) <= set(used)
        assert ("Activation" in used) == (target == "11.4")


@pytest.mark.parametrize("target", ["8.6", "11.4"])
def test_sizes_are_operands(target: str) -> None:
    """``x * h``, ``x / (h / 2)``, ``n > h``: sizes of dynamic dims in the place of numbers."""

    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
            h = x.shape[0]
            return x * h, x / (h / 2), n > h, n + h, x**h, (n * 2).clamp(max=h), x - (h + 1) * 0.5

    args = (torch.rand(5, 3), torch.arange(11))
    # From 3 on: older exports decide whether the power is a square.
    shapes = ({0: torch.export.Dim("h", min=3, max=64)}, None)
    narrow = NARROW if target == "8.6" else None
    program = compiled(Scaled(), args, dynamic_shapes=shapes, plan=narrow, target=target)
    assert not {str(node.target) for node in program.exported_program.graph.nodes} & {
        "aten.mul.Tensor",
        "aten.pow.Scalar",
    }
    for h in (3, 5, 13, 64):
        inputs = (torch.rand(h, 3), torch.arange(11))
        for expected, actual in zip(Scaled()(*inputs), program(*inputs), strict=True):
            torch.testing.assert_close(actual, expected)
