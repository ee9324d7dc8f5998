"""Quantize and Dequantize layers where TensorRT has them, and the same numbers by other layers where it does not."""

from __future__ import annotations

import torch

from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.graph.quantizer import Grain, Quantizer, Step, is_symmetric, scales_of
from trtdiag.network import DType, Value
from trtdiag.network.layers import Activation, ActivationType, Cast, Dequantize, Quantize, Shuffle
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op

_LEAST, _GREATEST = -128, 127
"""Of int8, which Quantize clamps to."""
_PAIRED = "weights behind Quantize and Dequantize"


def quantized(write: Writer, x: Value, quantizer: Quantizer, scale: Value | None, zero_point: Value | None) -> Value:
    """What a tensor is quantized to, as whole numbers (float8: as numbers of float8) in float32.

    By the layer these are its result, dequantized by 1: whoever dequantizes it by its scale finds the layer
    (``dequantized``), and nothing is left of the detour.  Else each step of PyTorch's, in float32 as there.

    Args:
        write: Writes.
        x: Floats.
        quantizer: How.
        scale: Where it is data.
        zero_point: Where it is data.

    Raises:
        Refused: ``float8-missing``: the rounding to float8 is the layer's alone.
    """
    made = _by_layer(write, x, quantizer)
    if made is not None:
        return write.add(Dequantize(DType.FLOAT32), made, write.number(1.0, DType.FLOAT32))
    if quantizer.is_float8:
        raise refuse(
            "float8-missing",
            f"it quantizes to float8, and {write.target.name_without(DType.FP8.value)} has no such layer for its scale",
            "quantize to int8, or compile for TensorRT 10 or later with a scale that is a constant",
        )
    wide = write.cast(x, DType.FLOAT32)
    scales = scales_of(quantizer)
    if scales is None:
        assert scale is not None
        by = _spread(write, write.cast(scale, DType.FLOAT32), wide, quantizer)
        y = write.elementwise(Op.PROD, wide, by.reciprocal()) if by.rank else wide * by.reciprocal()
    else:
        inverse = _at((1.0 / scales).to(torch.float32), wide.rank, quantizer)
        y = write.elementwise(Op.PROD, wide, write.constant(inverse))
    y = y.round()
    shift = _zero_point(write, quantizer, zero_point, wide)
    if shift is not None:
        y = write.elementwise(Op.SUM, y, shift)
    return y.maximum(quantizer.least).minimum(quantizer.greatest)


def rounded_to_float8(write: Writer, x: Value) -> Value:
    """What a cast to float8_e4m3fn makes of floats, in float32: quantized with a scale of 1.

    Raises:
        Refused: ``float8-missing``.
    """
    cast = Quantizer(Step.QUANTIZE, Grain.TENSOR, 1.0, None, -448.0, 448.0, torch.float8_e4m3fn)
    return quantized(write, write.cast(x, DType.FLOAT32), cast, None, None)


def numbers_of(write: Writer, q: Value) -> Value:
    """Whole numbers, or those of float8, in float32: as a Quantize layer gave them, past reshapes, where one did."""
    layer = q.made_by
    if isinstance(layer, Shuffle) and q.dtype is DType.INT32:
        before = numbers_of(write, q.sources[0])
        return write.add(layer, before, *q.sources[1:])
    found = _before_cast(q)
    return found if isinstance(found.made_by, Dequantize) else write.cast(q, DType.FLOAT32)


def dequantized(
    write: Writer, q: Value, quantizer: Quantizer, out: DType, scale: Value | None, zero_point: Value | None
) -> Value:
    """Quantized numbers times their scale, from the Quantize layer that gave them where one did.

    Args:
        write: Writes.
        q: Whole numbers of any dtype, or those of float8.
        quantizer: How.
        out: What becomes of them.
        scale: Where it is data.
        zero_point: Where it is data.
    """
    numbers = _before_cast(q)
    scales = scales_of(quantizer)
    layer = numbers.made_by
    if scales is not None and not scales.dim() and is_symmetric(quantizer) and isinstance(layer, Dequantize):
        source = numbers.sources[0]
        if isinstance(source.made_by, Quantize):
            return _times(write, source, scales, out, 0)
    wide = write.cast(numbers, DType.FLOAT32)
    shift = _zero_point(write, quantizer, zero_point, wide)
    if shift is not None:
        wide = write.elementwise(Op.SUB, wide, shift)
    if scales is None:
        assert scale is not None
        by = _spread(write, write.cast(scale, DType.FLOAT32), wide, quantizer)
    else:
        by = write.constant(_at(scales.to(torch.float32), wide.rank, quantizer))
    return write.cast(write.elementwise(Op.PROD, wide, by), out)


def dequantized_weight(
    write: Writer, content: torch.Tensor, quantizer: Quantizer, scales: torch.Tensor, out: DType
) -> Value:
    """Weights that the program holds quantized: as they are before Dequantize, or as floats where that does not go.

    TensorRT 8.6 takes no constants of int8, and fuses Quantize and Dequantize behind floats: these are the products, so
    that quantizing them gives the same numbers.  They are written for products whose other operand is quantized, too
    (``paired``); elsewhere nothing would be gained.

    Args:
        write: Writes.
        content: The weights.
        quantizer: How.
        scales: As ``scales_of`` has them.
        out: What becomes of them.
    """
    target = write.target
    dtype = DType.FP8 if quantizer.is_float8 else DType.INT8
    if quantizer.grain is Grain.BLOCK:
        dtype = DType.INT4 if quantizer.bits == 4 else dtype
    has = "Dequantize" in target.layers and dtype.value in target.dtypes
    if not has or not is_symmetric(quantizer) or content.dtype is not dtype.torch or not content.dim():
        return write.constant(_floats(content, quantizer, scales, out))
    axis = quantizer.axis % content.dim()
    if target.release >= (10,):
        blocks = quantizer.grain is Grain.BLOCK
        if not blocks or (dtype is DType.INT4 and scales.dim() == 2):
            return _times(write, write.constant(content, dtype), scales, out, 0 if blocks else axis)
    elif quantizer.grain is not Grain.BLOCK and _holds(scales, out):
        return _behind_floats(write, content, quantizer, scales, out, axis)
    return write.constant(_floats(content, quantizer, scales, out))


def weight_by(write: Writer, content: torch.Tensor, out: DType) -> Value:
    """Weights of few bits as floats, multiplied by nothing: in as many bits as they have, where that goes."""
    one = torch.ones((), dtype=torch.float64)
    least, greatest = (-448.0, 448.0) if content.dtype.is_floating_point else (_LEAST, _GREATEST)
    found = Quantizer(Step.DEQUANTIZE, Grain.TENSOR, 1.0, None, least, greatest, content.dtype)
    return dequantized_weight(write, content, found, one, out)


def is_quantized(x: Value) -> bool:
    """Whether floats are what a Quantize layer gave, or that in another shape."""
    while isinstance(x.made_by, Shuffle):
        x = x.sources[0]
    return isinstance(x.made_by, Dequantize)


def paired(write: Writer, x: Value, weight: Value) -> Value:
    """Weights of floats as they are quantized, beside a tensor that is quantized; their dims may have been moved."""
    if not is_quantized(x):
        return weight
    layer = weight.made_by
    if isinstance(layer, Shuffle) and len(weight.sources) == 1:
        before = weight.sources[0]
        found = write.once((_PAIRED, before.id), lambda: before)
        return weight if found is before else write.add(layer, found)
    return write.once((_PAIRED, weight.id), lambda: weight)


def _by_layer(write: Writer, x: Value, quantizer: Quantizer) -> Value | None:
    """Of a Quantize layer; ``None`` where it would give other numbers."""
    scales = scales_of(quantizer)
    if scales is None or scales.dim() or not is_symmetric(quantizer) or "Quantize" not in write.target.layers:
        return None
    to = DType.FP8 if quantizer.is_float8 else DType.INT8
    narrow = quantizer.least == _LEAST + 1
    whole = quantizer.least in (_LEAST, _LEAST + 1) and quantizer.greatest == _GREATEST
    if to.value not in write.target.dtypes or not (quantizer.is_float8 or (quantizer.dtype is torch.int8 and whole)):
        return None
    if not _holds(scales, x.dtype):
        x = write.cast(x, DType.FLOAT32)
    if narrow and not quantizer.is_float8 and not _is_relu(x):
        x = x.maximum(float(scales) * quantizer.least)
    return write.add(Quantize(to), x, write.number(float(scales), x.dtype))


def _is_relu(x: Value) -> bool:
    layer = x.made_by
    return isinstance(layer, Activation) and layer.op is ActivationType.RELU


def _times(write: Writer, q: Value, scales: torch.Tensor, out: DType, axis: int) -> Value:
    wide = out if _holds(scales, out) else DType.FLOAT32
    scale = write.constant(scales.to(wide.torch))
    return write.cast(write.add(Dequantize(wide, axis), q, scale), out)


def _holds(scales: torch.Tensor, dtype: DType) -> bool:
    """Whether a dtype of 16 bits holds scales with all its digits."""
    limits = torch.finfo(dtype.torch)
    return bool((scales >= limits.smallest_normal).all()) and bool((scales <= limits.max).all())


def _behind_floats(
    write: Writer, content: torch.Tensor, quantizer: Quantizer, scales: torch.Tensor, out: DType, axis: int
) -> Value:
    floats = write.constant(_floats(content, quantizer, scales, out))
    scale = write.constant(scales.to(out.torch))
    q = write.add(Quantize(DType.INT8, axis), floats, scale)
    both = write.add(Dequantize(out, axis), q, scale)
    write.once((_PAIRED, floats.id), lambda: both)
    return floats


def _floats(content: torch.Tensor, quantizer: Quantizer, scales: torch.Tensor, out: DType) -> torch.Tensor:
    """What PyTorch makes of the weights, where these are: scales that are numbers of the graph are on the CPU."""
    wide = content.to(torch.float32)
    zero = quantizer.zero_point
    if isinstance(zero, torch.Tensor):
        wide = wide - _at(zero.to(wide), content.dim(), quantizer)
    elif zero is not None:
        wide = wide - zero
    return (wide * _at(scales.to(wide), content.dim(), quantizer)).to(out.torch)


def _at(values: torch.Tensor, rank: int, quantizer: Quantizer) -> torch.Tensor:
    """Scales or zero points in a shape that broadcasts against what they belong to."""
    if values.numel() == 1 or quantizer.grain is Grain.TENSOR:
        return values.reshape([1] * rank)
    if quantizer.grain is Grain.CHANNEL:
        axis = quantizer.axis % rank
        return values.reshape([-1 if dim == axis else 1 for dim in range(rank)])
    return values.repeat_interleave(quantizer.block, 1)


def _spread(write: Writer, values: Value, x: Value, quantizer: Quantizer) -> Value:
    """Scales that are data, in the rank of what they belong to."""
    if quantizer.grain is Grain.CHANNEL:
        return write.along(values, quantizer.axis % x.rank, x.rank)
    return write.reshape(values, [1] * x.rank)


def _zero_point(write: Writer, quantizer: Quantizer, given: Value | None, x: Value) -> Value | None:
    """Zero points as float32; ``None`` where all are 0."""
    if is_symmetric(quantizer):
        return None
    zero = quantizer.zero_point
    if isinstance(zero, torch.Tensor):
        return write.constant(_at(zero.to(torch.float32), x.rank, quantizer))
    if isinstance(zero, (int, float)):
        return write.number(float(zero), DType.FLOAT32, x.rank)
    assert given is not None
    return _spread(write, write.cast(given, DType.FLOAT32), x, quantizer)


def _before_cast(q: Value) -> Value:
    """Whole numbers before they became int32."""
    layer = q.made_by
    if isinstance(layer, Cast) and layer.to is DType.INT32 and q.sources[0].dtype is DType.FLOAT32:
        return q.sources[0]
    return q
