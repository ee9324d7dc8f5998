"""The cases of every layer kind, as they are for each version and precision."""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parents[2] / "network"))

import choosing_cases
import language_cases
import pointwise_cases
import quantized_cases
import reducing_cases
import spatial_cases
from network_cases import Case, In

from trtdiag.errors import InternalError
from trtdiag.network import DType
from trtdiag.network.layer import LayerError
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation

CASES = {
    case.name: case
    for module in (choosing_cases, language_cases, pointwise_cases, quantized_cases, reducing_cases, spatial_cases)
    for case in module.CASES
}

# What a version was seen to refuse, or has no method for; converters write it with other layers.
_KINDS = (
    "attention",
    "cumulative",
    "dequantize_fp",
    "dequantize_int4",
    "dequantize_mxfp8",
    "dynamic_quantize",
    "group_norm",
    "kv_cache",
    "non_zero",
    "quantize_fp",
    "quantize_int4",
    "rotary",
)
_LACKING = {
    "8.6": {name for name in CASES if name.startswith(_KINDS)}
    | {"activation_GELU_ERF", "activation_GELU_TANH", "unary_ISNAN", "topk_min_ties"},
    "rtx-1.4": {name for name in CASES if name.startswith(("non_zero", "quantize", "dequantize", "dynamic_quantize"))},
    "rtx-1.7": {name for name in CASES if name.startswith("non_zero")},
}

# No integer is divided by 0; floats are never drawn as 0.
_DIVIDES = (ElementWiseOperation.DIV, ElementWiseOperation.FLOOR_DIV)


def lacks(name: str, target: str) -> bool:
    """Whether a version has no such layer."""
    return name in _LACKING.get(target, ())


def in_other_types(case: Case, types: dict[DType, DType]) -> Case:
    """The same case with dtypes replaced, in inputs, constants and attributes."""

    def of(one: In | torch.Tensor) -> In | torch.Tensor:
        own = one.dtype if isinstance(one, In) else DType.holding(one.dtype)
        other = types.get(own, own)
        return replace(one, dtype=other) if isinstance(one, In) else one.to(other.torch)

    values = {entry.name: getattr(case.layer, entry.name) for entry in fields(case.layer)}
    changed: dict[str, Any] = {name: types[value] for name, value in values.items() if value in types}
    return replace(case, layer=replace(case.layer, **changed), inputs=tuple(map(of, case.inputs)))


def case_for(name: str, target: str) -> Case:
    """The case as it is written for a version: 8.6 has int32 in the place of int64."""
    return in_other_types(CASES[name], {DType.INT64: DType.INT32}) if target == "8.6" else CASES[name]


def in_half(case: Case) -> Case | None:
    """The case in float16; ``None`` where it has no float32, or the layer takes no float16."""
    try:
        half = in_other_types(case, {DType.FLOAT32: DType.FLOAT16})
        network = half.network()
    except (InternalError, LayerError):
        return None
    return half if any(tensor.dtype is DType.FLOAT16 for tensor in network.tensors) else None


def in_place_of_float32(case: Case, dtype: DType) -> Case | None:
    """The case with inputs of float32 in another dtype; ``None`` where there is none, or the layer refuses."""
    if not any(
        (one.dtype if isinstance(one, In) else DType.holding(one.dtype)) is DType.FLOAT32 for one in case.inputs
    ):
        return None
    try:
        other = in_other_types(case, {DType.FLOAT32: dtype})
        other.network()
    except (InternalError, LayerError):
        return None
    if isinstance(other.layer, ElementWise) and other.layer.op in _DIVIDES:
        first, *divisors = other.inputs
        other = replace(
            other, inputs=(first, *(replace(one, least=1) if isinstance(one, In) else one for one in divisors))
        )
    return other
