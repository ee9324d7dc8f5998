"""Ops that work element by element, at the ends: special numbers, sizes 1 and a prime, mixed dtypes, limits."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.convert.op_check import OLD_THEN_NEW, check_op
from tests.convert.op_samples import overload
from tests.convert.pointwise_table import TABLE
from trtdiag.convert.registry import converters

aten = torch.ops.aten
FAMILIES = {
    *(
        "activation",
        "arithmetic",
        "comparison",
        "conversion",
        "division",
        "elementary",
        "gated_activation",
        "logic",
        "binary",
    ),
    *("power", "rounding", "selection"),
}
NAN, INF = float("nan"), float("inf")
SPECIAL = torch.tensor(
    [
        *(0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, -7.3, 1e-8, -1e-8, 0.3, -0.3, 20.5, 87.0, -87.0),
        *(1e20, -1e20, NAN, INF, -INF),
    ]
)
INTEGERS = torch.tensor([0, 1, -1, 2, -2, 7, -7, 255, 256, -256, 12345, 2**31 - 1, -(2**31)])
ROWS = torch.linspace(-3, 3, 35).reshape(5, 7)


def _every_pair(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return values.repeat_interleave(len(values)), values.repeat(len(values))


LEFT, RIGHT = _every_pair(SPECIAL)

# Ops that OpInfo has no samples for.
HAND_WRITTEN: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "aten.alias.default": [((ROWS,), {})],
    "aten.detach.default": [((ROWS,), {})],
    "aten.lift_fresh.default": [((ROWS,), {})],
    "aten.lift_fresh_copy.default": [((ROWS,), {})],
    "aten.type_as.default": [((ROWS, INTEGERS), {}), ((INTEGERS, ROWS.half()), {})],
    "aten.dropout.default": [((ROWS, 0.5, False), {})],
    "aten.feature_dropout.default": [((ROWS[None], 0.5, False), {})],
    "aten.alpha_dropout.default": [((ROWS, 0.5, False), {})],
    "aten.native_dropout.default": [((ROWS, 0.5, False), {})],
    "aten.scalar_tensor.default": [((2.5,), {}), ((3,), {"dtype": torch.int64}), ((-INF,), {"dtype": torch.float16})],
    "aten.to.device": [((ROWS, torch.device("cpu"), torch.float16), {})],
    "aten.to.dtype": [((ROWS, torch.int32), {}), ((SPECIAL, torch.bool), {}), ((INTEGERS, torch.float32), {})],
    "aten.to.dtype_layout": [((ROWS,), {"dtype": torch.int64})],
    "aten.to.other": [((ROWS, INTEGERS), {})],
    "aten.where.Scalar": [((ROWS > 0, 1.5, -2.0), {}), ((ROWS > 0, 1, -2), {})],
    "aten.where.ScalarOther": [((ROWS > 0, ROWS, NAN), {}), ((INTEGERS > 0, INTEGERS, 0.5), {})],
    "aten.where.ScalarSelf": [((ROWS > 0, -INF, ROWS), {}), ((INTEGERS > 0, 3, INTEGERS), {})],
    "aten.div.Scalar_mode": [
        ((INTEGERS, 7), {"rounding_mode": "floor"}),
        ((INTEGERS, -7), {"rounding_mode": "trunc"}),
        ((SPECIAL, 0.3), {"rounding_mode": "trunc"}),
        ((ROWS, -0.3), {"rounding_mode": "floor"}),
        ((INTEGERS, 3), {"rounding_mode": None}),
    ],
    "aten.log_sigmoid_forward.default": [],  # its second output is of no use: below
    "aten.rrelu.default": [((SPECIAL, 0.1, 0.3, False), {})],
}


def test_every_converter_has_samples() -> None:
    ours = {op for op, found in converters().items() if found.family in FAMILIES}
    assert ours == {row.op for row in TABLE} | set(HAND_WRITTEN)


@pytest.mark.parametrize("target", OLD_THEN_NEW)
@pytest.mark.parametrize("name", sorted(HAND_WRITTEN))
def test_hand_written(name: str, target: str) -> None:
    op = overload(name)
    assert op is not None
    for args, kwargs in HAND_WRITTEN[name]:
        for dynamic in (False, True):
            assert not check_op(op, args, kwargs, dynamic=dynamic, target=target).limits


ONE = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad erf erfc exp exp2 expm1 floor frac isfinite isinf "
    "isnan isneginf isposinf log log10 log1p log2 logical_not logit nan_to_num neg rad2deg reciprocal round rsqrt sgn "
    "sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc relu relu6 gelu silu elu selu celu leaky_relu "
    "softplus hardtanh hardsigmoid hardswish hardshrink softshrink log_sigmoid mish"
)
TWO = (
    "atan2 fmax fmin hypot logaddexp maximum minimum floor_divide xlogy.Tensor copysign.Tensor eq.Tensor ne.Tensor "
    "lt.Tensor le.Tensor gt.Tensor ge.Tensor div.Tensor remainder.Tensor fmod.Tensor special_xlog1py pow.Tensor_Tensor"
)


@pytest.mark.parametrize("target", OLD_THEN_NEW)
@pytest.mark.parametrize("name", ONE.split())
def test_special_numbers(name: str, target: str) -> None:
    op = getattr(aten, name).default
    values = SPECIAL
    if name in ("sin", "cos", "tan", "sinc"):
        values = SPECIAL[SPECIAL.abs() != 1e20]  # of an angle of 1e20 PyTorch itself knows no digit
    if name == "gelu":
        values = SPECIAL[~SPECIAL.isinf()]  # PyTorch's vectorized GELU gives NaN for infinity, its formula infinity
    assert not check_op(op, (values,), target=target).limits
    if name != "gelu":  # PyTorch's vectorized GELU gives +0 for -0, its formula -0, and the CPU decides which one runs
        _same_sign_of_zero(op, (values,), target)


@pytest.mark.parametrize("name", TWO.split())
def test_special_pairs(name: str) -> None:
    op = overload(f"aten.{name}" if "." in name else f"aten.{name}.default")
    assert op is not None
    left, right = LEFT, RIGHT
    if name in ("floor_divide", "remainder.Tensor", "fmod.Tensor"):
        exact = ~((left / right).abs() > 2**22) | right.isinf() | ~left.isfinite() | (right == 0)
        left, right = left[exact], right[exact]
    if name == "hypot":
        known = ~(left.isnan() | right.isnan())
        left, right = left[known], right[known]
    assert not check_op(op, (left, right)).limits


def _same_sign_of_zero(op: Any, args: tuple[Any, ...], target: str) -> None:
    def compare(expected: torch.Tensor, actual: torch.Tensor) -> None:
        zero = (expected == 0) & (actual == 0)
        assert torch.equal(torch.signbit(expected[zero]), torch.signbit(actual[zero])), (expected, actual)

    if op(*args).is_floating_point():
        check_op(op, args, target=target, compare=compare)
