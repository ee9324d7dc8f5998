"""Ops that work element by element: where their samples come from, and which limits these may hit."""

from __future__ import annotations

from dataclasses import dataclass

NUMBERS = (2, -3, 0.5, True)


@dataclass(frozen=True)
class Row:
    """An overload and its samples.

    Attributes:
        op: The overload.
        infos: The OpInfos whose samples it is called with.
        refused: Codes of limits that a sample may hit.
        numbers: With each of these in the place of the second operand, where the samples have tensors there.
        number_first: They take the place of the first operand.
    """

    op: str
    infos: tuple[str, ...]
    refused: frozenset[str] = frozenset()
    numbers: tuple[float, ...] = ()
    number_first: bool = False


def _rows(text: str, overload: str = "default", *refused: str) -> list[Row]:
    return [Row(f"aten.{name}.{overload}", (name,), frozenset(refused)) for name in text.split()]


def _numbers(text: str, overload: str = "Scalar", *refused: str, first: bool = False) -> list[Row]:
    return [Row(f"aten.{name}.{overload}", (name,), frozenset(refused), NUMBERS, first) for name in text.split()]


TABLE = (
    *_rows(
        "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad erf erfc exp exp2 expm1 floor frac isfinite isinf "
        "isnan isneginf isposinf log log10 log1p log2 logical_not logit nan_to_num neg positive rad2deg reciprocal "
        "round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc bitwise_not clone contiguous "
        "atan2 fmax fmin hypot logaddexp logical_and logical_or logical_xor maximum minimum floor_divide "
        "addcmul addcdiv"
    ),
    *_rows("add sub rsub mul div eq ne lt le gt ge remainder fmod true_divide xlogy copysign lerp", "Tensor"),
    *_numbers("add sub rsub mul div eq ne lt le gt ge remainder fmod floor_divide copysign"),
    *_rows("clamp_min clamp_max clamp", "Tensor"),
    *_numbers("clamp_min clamp_max", "default"),
    *_numbers("remainder", "Scalar_Tensor", first=True),
    *_numbers("xlogy", "Scalar_Other"),
    *_numbers("xlogy", "Scalar_Self", first=True),
    # Bits of two integer tensors: no layer.
    *_rows("bitwise_and bitwise_or bitwise_xor", "Tensor", "integer-bits"),
    *_numbers("bitwise_and bitwise_or bitwise_xor"),
    *_numbers("bitwise_and bitwise_or bitwise_xor", "Scalar_Tensor", first=True),
    *(
        Row(f"aten.__{name}__.Tensor", (f"bitwise_{name}",), frozenset({"integer-bits"}))
        for name in ("and", "or", "xor")
    ),
    *(Row(f"aten.__{name}__.Scalar", (f"bitwise_{name}",), numbers=NUMBERS) for name in ("and", "or", "xor")),
    # The number of places is a tensor; -3 is no number of places.
    *_rows("bitwise_left_shift bitwise_right_shift", "Tensor", "shift-amount"),
    *_numbers("bitwise_left_shift bitwise_right_shift", "Tensor_Scalar", "shift-amount"),
    *(
        Row(f"aten.__{side[0]}shift__.{kind}", (f"bitwise_{side}_shift",), frozenset({"shift-amount"}), numbers)
        for side in ("left", "right")
        for kind, numbers in (("Tensor", ()), ("Scalar", NUMBERS))
    ),
    Row("aten.clamp.default", ("clamp",), numbers=NUMBERS),
    Row("aten.clip.default", ("clamp",), numbers=NUMBERS),
    Row("aten.clip.Tensor", ("clamp",)),
    Row("aten.lerp.Scalar", ("lerp",)),
    Row("aten.div.Tensor_mode", ("div",)),
    Row("aten.round.decimals", ("round",)),
    Row("aten.special_xlog1py.default", ("special.xlog1py",)),
    Row("aten.max.other", ("maximum",)),
    Row("aten.min.other", ("minimum",)),
    Row("aten.where.self", ("where",)),
    Row("aten.masked_fill.Scalar", ("masked_fill",)),
    Row("aten.masked_fill.Tensor", ("masked_fill",)),
    # Integers to integers that are known only when the network runs; bools to -3.
    Row("aten.pow.Tensor_Tensor", ("pow",), frozenset({"integer-power"})),
    Row("aten.pow.Tensor_Scalar", ("pow",), frozenset({"integer-power"}), (*NUMBERS, 0, 1, 3, -0.5, -1, -2, 7, 2.7)),
    Row("aten.pow.Scalar", ("pow",), frozenset({"integer-power"}), NUMBERS, number_first=True),
    # float64 has no counterpart: where it is planned at all, it is planned as float32.
    Row("aten._to_copy.default", ("float", "half", "int", "long", "bool")),
    *(
        Row(f"aten.{name}.default", (f"nn.functional.{name}",))
        for name in (
            *("celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish"),
            *("prelu", "relu", "relu6", "selu", "silu", "softplus", "softshrink", "threshold"),
        )
    ),
    Row("aten._prelu_kernel.default", ("nn.functional.prelu",)),
    Row("aten.log_sigmoid.default", ("nn.functional.logsigmoid",)),
)
"""Ops whose OpInfo has samples for the overload."""
