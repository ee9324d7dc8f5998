"""Reads the arguments of quantizers: those of torchao's PT2E flow, of torch itself, of torchao and of ModelOpt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from trtdiag.graph.quantizer import Grain, Quantizer, Step


def _number(value: Any) -> float:
    """A bound, which is a number or a tensor of one element; NaN where only the data say it."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return float(value.item())
    return float(value) if isinstance(value, (int, float)) else math.nan


def _dtype(value: Any) -> Any:
    """A dtype as an argument; the defaults of schemas are torch's numbers of them."""
    return _NUMBERED.get(value, value) if isinstance(value, int) else value


_NUMBERED = {5: torch.float16, 6: torch.float32, 15: torch.bfloat16, 24: torch.float8_e4m3fn}


def _decomposed(step: Step, grain: Grain) -> Callable[[Mapping[str, Any], tuple[Any, ...]], Quantizer]:
    """Of ``torch.ops.quantized_decomposed``, which names its arguments alike."""

    def read(given: Mapping[str, Any], shape: tuple[Any, ...]) -> Quantizer:
        scale = given["scale"] if "scale" in given else given["scales"]
        zero_point = given["zero_point"] if "zero_point" in given else given["zero_points"]
        return Quantizer(
            step=step,
            grain=grain,
            scale=scale,
            zero_point=zero_point,
            least=_number(given["quant_min"]),
            greatest=_number(given["quant_max"]),
            dtype=given["dtype"],
            out_dtype=given.get("out_dtype") or given.get("output_dtype"),
            axis=given.get("axis", 0),
            block=given.get("group_size", 0),
        )

    return read


def _fake(grain: Grain) -> Callable[[Mapping[str, Any], tuple[Any, ...]], Quantizer]:
    """Of ``torch.fake_quantize_*``: floats in, floats out."""

    def read(given: Mapping[str, Any], shape: tuple[Any, ...]) -> Quantizer:
        least, greatest = _number(given["quant_min"]), _number(given["quant_max"])
        return Quantizer(
            step=Step.BOTH,
            grain=grain,
            scale=given["scale"],
            zero_point=given["zero_point"],
            least=least,
            greatest=greatest,
            dtype=_holding(least, greatest),
            axis=given.get("axis", 0),
        )

    return read


def _holding(least: float, greatest: float) -> torch.dtype:
    """The narrowest dtype that holds these integers."""
    for dtype in (torch.int8, torch.uint8, torch.int16):
        limits = torch.iinfo(dtype)
        if limits.min <= least and greatest <= limits.max:
            return dtype
    return torch.int32


def _affine(step: Step) -> Callable[[Mapping[str, Any], tuple[Any, ...]], Quantizer | None]:
    """Of torchao: what shares a scale is said as the size of a block in each dim."""

    def read(given: Mapping[str, Any], shape: tuple[Any, ...]) -> Quantizer | None:
        dtype = given["input_dtype" if step is Step.DEQUANTIZE else "output_dtype"]
        if not isinstance(dtype, torch.dtype) or dtype.is_floating_point:
            return None
        grain, axis, block = _grain_of(given["block_size"], shape)
        limits, said = torch.iinfo(dtype), (given["quant_min"], given["quant_max"])
        least = limits.min if said[0] is None else _number(said[0])
        greatest = limits.max if said[1] is None else _number(said[1])
        return Quantizer(
            step=step,
            grain=grain,
            scale=given["scale"],
            zero_point=given["zero_point"],
            least=least,
            greatest=greatest,
            dtype=dtype,
            out_dtype=_dtype(given["output_dtype"]) if step is Step.DEQUANTIZE else None,
            axis=axis,
            block=block,
        )

    return read


def _grain_of(block: Any, shape: tuple[Any, ...]) -> tuple[Grain, int, int]:
    """What shares a scale, its axis and its size; blocks may end with dims whose sizes are symbols."""
    other = Grain.OTHER, 0, 0
    if not isinstance(block, (list, tuple)) or len(block) != len(shape):
        return other
    pairs = list(zip(block, shape, strict=True))
    split = [axis for axis, (size, whole) in enumerate(pairs) if not _same_size(size, whole)]
    if not split:
        return Grain.TENSOR, 0, 0
    if len(split) == 1 and _same_size(block[split[0]], 1):
        return Grain.CHANNEL, split[0], 0
    if len(block) != 2 or not all(isinstance(size, int) for size in (*block, *shape)):
        return other
    return (Grain.BLOCK, 0, block[-1]) if block[0] == 1 and block[-1] > 1 else other


def _same_size(one: Any, other: Any) -> bool:
    """Whether two sizes are the same number or are written alike; asking symbols for more would add a guard."""
    if isinstance(one, torch.SymInt) and isinstance(other, torch.SymInt):
        return bool(one.node.expr == other.node.expr)
    return isinstance(one, int) and isinstance(other, int) and one == other


def _float8(step: Step) -> Callable[[Mapping[str, Any], tuple[Any, ...]], Quantizer | None]:
    """Of torchao to float8 with one scale."""

    def read(given: Mapping[str, Any], shape: tuple[Any, ...]) -> Quantizer | None:
        scale, dtype = given["scale"], _dtype(given.get("float8_dtype", torch.float8_e4m3fn))
        several = isinstance(scale, torch.Tensor) and scale.numel() != 1
        if dtype is not torch.float8_e4m3fn or several:
            return None
        return Quantizer(step, Grain.TENSOR, scale, None, -448.0, 448.0, dtype, _dtype(given.get("output_dtype")))

    return read


def _model_optimizer(given: Mapping[str, Any], shape: tuple[Any, ...]) -> Quantizer | None:
    """Of ModelOpt, which says the greatest magnitude; float8 has 4 exponent bits, integers have none."""
    bits, exponent, unsigned = given["num_bits"], given["exponent_bits"], given["unsigned"]
    amax = given["amax"]
    if not isinstance(bits, int) or not isinstance(exponent, int) or (exponent and (bits, exponent) != (8, 4)):
        return None
    grain, axis = Grain.TENSOR, 0
    if isinstance(amax, torch.Tensor) and amax.numel() != 1:
        along = [dim for dim, size in enumerate(amax.shape) if size != 1]
        if len(along) != 1 or amax.dim() != len(shape):
            return None
        grain, axis, amax = Grain.CHANNEL, along[0], amax.reshape(-1)
    if exponent:
        return Quantizer(Step.BOTH, grain, amax, None, -448.0, 448.0, torch.float8_e4m3fn, axis=axis, bound=448.0)
    greatest = 2 ** (bits - 1 + bool(unsigned)) - 1
    least = 0 if unsigned else -greatest - (not given["narrow_range"])
    dtype = _holding(least, greatest)
    return Quantizer(Step.BOTH, grain, amax, None, least, greatest, dtype, axis=axis, bound=float(greatest))


READERS: dict[str, Callable[[Mapping[str, Any], tuple[Any, ...]], Quantizer | None]] = {
    "quantized_decomposed.quantize_per_tensor": _decomposed(Step.QUANTIZE, Grain.TENSOR),
    "quantized_decomposed.quantize_per_channel": _decomposed(Step.QUANTIZE, Grain.CHANNEL),
    "quantized_decomposed.quantize_per_channel_group": _decomposed(Step.QUANTIZE, Grain.BLOCK),
    "quantized_decomposed.dequantize_per_tensor": _decomposed(Step.DEQUANTIZE, Grain.TENSOR),
    "quantized_decomposed.dequantize_per_channel": _decomposed(Step.DEQUANTIZE, Grain.CHANNEL),
    "quantized_decomposed.dequantize_per_channel_group": _decomposed(Step.DEQUANTIZE, Grain.BLOCK),
    "aten.fake_quantize_per_tensor_affine": _fake(Grain.TENSOR),
    "aten.fake_quantize_per_tensor_affine_cachemask": _fake(Grain.TENSOR),
    "aten.fake_quantize_per_channel_affine": _fake(Grain.CHANNEL),
    "aten.fake_quantize_per_channel_affine_cachemask": _fake(Grain.CHANNEL),
    "torchao.quantize_affine": _affine(Step.QUANTIZE),
    "torchao.dequantize_affine": _affine(Step.DEQUANTIZE),
    "torchao.quantize_affine_float8_non_decomposed": _float8(Step.QUANTIZE),
    "torchao.dequantize_affine_float8_non_decomposed": _float8(Step.DEQUANTIZE),
    "tensorrt.quantize_op": _model_optimizer,
}
