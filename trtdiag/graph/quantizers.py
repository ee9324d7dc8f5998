"""Reads quantizers: ops that turn floats into numbers of few bits with a scale, and back.

One place says what such an op does, whoever wrote it: torchao's PT2E flow, torch's own fake quantization, torchao's
tensor subclasses, ModelOpt.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.operators import CAST, OpOverload, named_arguments, operator_of, target_name


QUANTIZED_DTYPES = frozenset({torch.int8, torch.float8_e4m3fn})
"""Of weights that engines may hold in as many bits as the program does."""


_FLOATS = frozenset({torch.float32, torch.float16, torch.bfloat16})


class Step(Enum):
    """What an op does of the way to few bits and back."""

    QUANTIZE = "quantize"
    DEQUANTIZE = "dequantize"
    BOTH = "both"


class Grain(Enum):
    """What shares a scale: a whole tensor, each element of one dim, or each block of the last dim."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    BLOCK = "block"


@dataclass(frozen=True)
class Quantizer:
    """``clamp(round(x / scale) + zero_point, least, greatest)``, ``(q - zero_point) * scale``, or both.

    Attributes:
        step: Which of them.
        grain: What shares a scale.
        scale: A number, or the argument that holds scales (a node of the graph, or what stands for it).
        zero_point: Just so; ``None`` where there is none, which is 0.
        least: Of the quantized numbers.
        greatest: Of the quantized numbers.
        dtype: The torch dtype that holds them.
        out_dtype: What dequantizing yields; ``None``: the dtype of what was quantized, or float32.
        axis: Of ``Grain.CHANNEL``, counted as the op counts it.
        block: Of ``Grain.BLOCK``, elements that share a scale.
        bound: Where ``scale`` is the greatest magnitude in the place of a scale, the number that it becomes; else 1.
    """

    step: Step
    grain: Grain
    scale: Any
    zero_point: Any
    least: float
    greatest: float
    dtype: torch.dtype
    out_dtype: torch.dtype | None = None
    axis: int = 0
    block: int = 0
    bound: float = 1.0

    @property
    def is_float8(self) -> bool:
        """Whether the numbers are those of float8_e4m3fn, which are rounded to digits and not to integers."""
        return self.dtype is torch.float8_e4m3fn

    @property
    def bits(self) -> int:
        """How many bits the numbers need: 4 where they are integers of -8 to 7."""
        return 4 if not self.is_float8 and self.least >= -8 and self.greatest <= 7 else self.dtype.itemsize * 8


def quantizer_of(node: Node, held: Callable[[Node], torch.Tensor | None] = lambda node: None) -> Quantizer | None:
    """Return what a node does as a quantizer, ``None`` where it is none.

    Args:
        node: The node.
        held: Gives the value of a constant; scales and zero points of constants are then in the result.
    """
    op = operator_of(node)
    if op is None or not is_quantizer(op):
        return None
    given = named_arguments(node, op)
    values = {name: _value(argument, held) for name, argument in given.items()}
    source = next(iter(given.values()))
    value = source.meta.get("val") if isinstance(source, Node) else None
    return read_quantizer(op, values, tuple(value.shape) if isinstance(value, torch.Tensor) else ())


def is_quantizer(op: OpOverload) -> bool:
    """Whether an op is of a family that this module reads."""
    return target_name(op).rpartition(".")[0] in _READERS


def read_quantizer(op: OpOverload, given: Mapping[str, Any], shape: Sequence[Any] = ()) -> Quantizer | None:
    """Return what a call does as a quantizer, ``None`` where it is none that this module can name.

    Args:
        op: The op.
        given: Its arguments by name.
        shape: Of what it quantizes or dequantizes; blocks are told by it.
    """
    reader = _READERS.get(target_name(op).rpartition(".")[0])
    return None if reader is None else reader(given, tuple(shape))


def is_quantizer_node(node: Node) -> bool:
    """Whether a node calls an op of such a family."""
    op = operator_of(node)
    return op is not None and is_quantizer(op)


def makes_floats(node: Node) -> bool:
    """Whether a node makes floats of quantized numbers: it dequantizes them, or is a cast."""
    value = node.meta.get("val")
    casts = operator_of(node) is CAST and isinstance(value, torch.Tensor) and value.dtype in _FLOATS
    return casts or is_dequantizer(node.target)


def decomposed_ops() -> Any:
    """Return ``torch.ops.quantized_decomposed``; torch registers it when it is asked for, not when it is imported."""
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    return torch.ops.quantized_decomposed


def is_dequantizer(op: object) -> bool:
    """Whether an op, or that of such a name, reads quantized numbers and gives floats."""
    return target_name(op).partition(".")[2].startswith("dequantize_")


def is_symmetric(quantizer: Quantizer) -> bool:
    """Whether 0 stands for 0 everywhere; zero points that are not known are none of 0."""
    zero = quantizer.zero_point
    if zero is None:
        return True
    if isinstance(zero, torch.Tensor):
        return not bool(zero.any())
    return isinstance(zero, (int, float)) and zero == 0


def scales_of(quantizer: Quantizer) -> torch.Tensor | None:
    """Return the scales in float64, without dims where there is one; ``None`` where they are data or useless.

    Useless are scales that are 0, negative or not finite: what they make of a tensor is PyTorch's business.
    """
    scale = quantizer.scale
    if not isinstance(scale, (int, float, torch.Tensor)):
        return None
    scales = torch.as_tensor(scale).detach().to("cpu", torch.float64) / quantizer.bound
    scales = scales.reshape(()) if quantizer.grain is Grain.TENSOR and scales.numel() == 1 else scales
    return scales if scales.numel() and bool((torch.isfinite(scales) & (scales > 0)).all()) else None


def _value(argument: Any, held: Callable[[Node], torch.Tensor | None]) -> Any:
    if not isinstance(argument, Node):
        return argument
    value = held(argument)
    return argument if value is None else value


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
        found = _grain_of(given["block_size"], shape)
        if found is None or not isinstance(dtype, torch.dtype) or dtype.is_floating_point:
            return None
        grain, axis, block = found
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


def _grain_of(block: Any, shape: tuple[Any, ...]) -> tuple[Grain, int, int] | None:
    """What shares a scale, its axis and its size; ``None`` for blocks of another form, and where sizes are symbols."""
    if not isinstance(block, (list, tuple)) or len(block) != len(shape):
        return None
    if not all(isinstance(size, int) for size in (*block, *shape)):
        return None
    split = [axis for axis, (size, whole) in enumerate(zip(block, shape, strict=True)) if size != whole]
    if not split:
        return Grain.TENSOR, 0, 0
    if len(split) == 1 and block[split[0]] == 1:
        return Grain.CHANNEL, split[0], 0
    rows = all(size == 1 for size in block[:-1])
    return (Grain.BLOCK, 0, block[-1]) if len(block) == 2 and rows and block[-1] > 1 else None


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


_READERS: dict[str, Callable[[Mapping[str, Any], tuple[Any, ...]], Quantizer | None]] = {
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
