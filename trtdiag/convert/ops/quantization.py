"""Quantizing and dequantizing, as torchao's PT2E flow, torch's fake quantization and ModelOpt write it."""

from __future__ import annotations

import math

import torch

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.matmul import product
from trtdiag.convert.layer_writers.quantized import (
    dequantized,
    dequantized_weight,
    is_quantized,
    numbers_of,
    quantized,
    weight_by,
)
from trtdiag.graph.quantizer import Grain, Quantizer, Step, is_symmetric, scales_of
from trtdiag.graph.quantizers import read_quantizer
from trtdiag.network import DType, Value
from trtdiag.network.layers.elementwise import ElementWiseOperation
from trtdiag.symbolic import Num

_EXACT = 512
"""Products of a uint8 and an int8 whose sum stays below 2^24, up to which float32 holds every integer."""


@converter
def quantize(call: Call) -> Value:
    """quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int
        quant_max, ScalarType dtype) -> Tensor
    quantized_decomposed::quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int
        quant_max, ScalarType dtype) -> Tensor
    quantized_decomposed::quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min,
        Tensor quant_max, ScalarType dtype) -> Tensor

    A Quantize layer for int8 with zero point 0, which with its ``dequantize_per_tensor`` makes what reads it INT8;
    else rounded and clamped in float32.

    quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min,
        int quant_max, ScalarType dtype) -> Tensor

    Of weights, computed when compiling; of other tensors rounded and clamped in float32: TensorRT quantizes these with
    one scale.

    torchao::quantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType float8_dtype=24) -> Tensor

    A Quantize layer to float8_e4m3fn with one scale.
    """
    found = _read(call)
    if found.is_float8 and call.op_name != "quantize_affine_float8_non_decomposed":
        raise refuse(
            "float8-rounding",
            "it rounds to whole numbers before it becomes float8, and an engine rounds once",
            "quantize with torchao's float8 ops, or to int8",
        )
    x = call.tensor(next(iter(call.arguments)))
    y = quantized(call.write, x, found, _data(call, "scale"), _data(call, "zero_point"))
    return call.write.cast(y, call.out.dtype)


@converter
def dequantize(call: Call) -> Value:
    """quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int
        quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
    quantized_decomposed::dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int
        quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
    quantized_decomposed::dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min,
        Tensor quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
    quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int
        quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
    quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min,
        int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor
    torchao::dequantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType output_dtype=6) -> Tensor

    A Dequantize layer behind a Quantize layer, and of weights with zero point 0 in as many bits as they have; else
    multiplied in float32, of weights when compiling.
    """
    found = _read(call)
    name = next(iter(call.arguments))
    content, scales = call.held.get(name), scales_of(found)
    known = is_symmetric(found) or isinstance(found.zero_point, (int, float, torch.Tensor))
    if content is not None and scales is not None and known:
        return dequantized_weight(call.write, content, found, scales, call.out.dtype)
    given = call.tensor(name)
    return dequantized(call.write, given, found, call.out.dtype, _data(call, "scale"), _data(call, "zero_point"))


@converter
def fake_quantize(call: Call) -> Value | list[Value | None]:
    """aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) ->
        Tensor
    aten::fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min,
        int quant_max) -> Tensor
    aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int
        quant_max) -> Tensor
    aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int
        quant_max) -> (Tensor output, Tensor mask)
    aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int
        quant_min, int quant_max) -> (Tensor output, Tensor mask)
    tensorrt::quantize_op(Tensor input, Tensor amax, int num_bits, int exponent_bits, bool unsigned, bool narrow_range)
        -> Tensor

    Quantized and dequantized, each as the ops of ``quantized_decomposed`` are.
    """
    found = _read(call)
    scale, zero_point = _data(call, "scale"), _data(call, "zero_point")
    if scales_of(found) is None and found.bound != 1.0:
        raise refuse("quantizer-scale", "its amax is known only when it runs", "calibrate the model before the export")
    x = call.tensor(next(iter(call.arguments)))
    numbers = quantized(call.write, x, found, scale, zero_point)
    y = dequantized(call.write, numbers, found, call.out.dtype, scale, zero_point)
    return [y, None] if call.op_name.endswith("cachemask") else y


@converter
def integer_product(call: Call) -> Value:
    """aten::_int_mm(Tensor self, Tensor mat2) -> Tensor

    In INT8 behind a Quantize layer, whose scale is a constant; else in float32, over so few elements at a time that
    every sum is exact, and these added as int32.
    """
    write = call.write
    left, right = numbers_of(write, call.tensor("self")), call.tensor("mat2")
    content = call.held.get("mat2")
    inner = right.shape[0]
    if not isinstance(inner, Num):
        raise refuse("dynamic-attribute", "it sums over a number of elements that is known only when it runs")
    if not inner.value:
        return write.filled(call.out.shape, 0, call.out.dtype)
    parts = []
    most = _EXACT if not is_quantized(left) else int(inner.value)  # kernels of INT8 add as int32
    for start in range(0, int(inner.value), most):
        size = min(most, int(inner.value) - start)
        if content is not None and content.dtype is torch.int8:
            rows = weight_by(write, content[start : start + size], DType.FLOAT32)
        else:
            rows = write.cast(write.part(right, 0, start, size), DType.FLOAT32)
        parts.append(write.cast(product(write, write.part(left, 1, start, size), rows), call.out.dtype))
    return write.fold(ElementWiseOperation.SUM, parts)


@converter
def product_with_int8(call: Call) -> Value:
    """aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor

    With weights of int8 behind Dequantize, a scale for each output channel.
    """
    write, content, scales = call.write, call.held.get("mat2"), call.held.get("scales")
    if content is None or scales is None:
        raise refuse("quantizer-form", "its weights are known only when it runs", "hold them in the module")
    found = Quantizer(Step.DEQUANTIZE, Grain.CHANNEL, scales, None, -128, 127, torch.int8)
    dtype = call.out.dtype
    known = scales_of(found)
    if known is None:
        raise refuse("quantizer-scale", "its scale is 0, negative or not finite", "quantize the model again")
    weight = dequantized_weight(write, content, found, known, dtype)
    x = write.cast(call.tensor("self"), dtype)
    return product(write, x, weight, transposed=True)


@converter
def float8_product(call: Call) -> Value:
    """aten::_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor?
        scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor

    A product of float8 numbers, multiplied by its scales behind it: one for each tensor, or one for each row of the
    first and each column of the second.
    """
    write = call.write
    if call.has("scale_result"):
        raise refuse("quantizer-form", "its result is quantized again", "leave scale_result out and quantize behind it")
    left, right = write.cast(call.tensor("self"), DType.FLOAT32), call.tensor("mat2")
    content = call.held.get("mat2")
    if content is not None and content.dtype is torch.float8_e4m3fn:
        right = weight_by(write, content, DType.FLOAT32)
    y = product(write, left, write.cast(right, DType.FLOAT32))
    for name, axis in (("scale_a", 0), ("scale_b", 1)):
        scale = call.tensor(name)
        others = [size for dim, size in enumerate(scale.shape) if dim != axis or scale.rank != y.rank]
        along = scale.rank == y.rank and write.builder.facts.equal(scale.shape[axis], y.shape[axis])
        if any(size != Num(1) for size in others) or not (along or all(size == Num(1) for size in scale.shape)):
            raise refuse(
                "quantizer-form",
                f"{name} has {scale.rank} dims with scales of blocks, and a product is multiplied by those of rows",
                "quantize with one scale for each tensor or row",
            )
        scale = scale if scale.rank == y.rank else write.reshape(scale, [Num(1)] * y.rank)
        y = write.elementwise(ElementWiseOperation.PROD, y, write.cast(scale, DType.FLOAT32))
    if call.has("bias"):
        y = y + write.cast(call.tensor("bias"), DType.FLOAT32)
    return write.cast(y, call.out.dtype)


def _read(call: Call) -> Quantizer:
    name = next(iter(call.arguments))
    arguments = {key: call.held.get(key, value) for key, value in call.arguments.items()}
    arguments |= {key: int(value.value) for key, value in arguments.items() if isinstance(value, Num)}
    shape = tuple(int(size.value) if isinstance(size, Num) else size for size in call.tensor(name).shape)
    found = read_quantizer(call.op, arguments, shape)
    ends = () if found is None or found.step is Step.DEQUANTIZE else (found.least, found.greatest)
    if found is None or any(map(math.isnan, ends)):
        raise refuse("quantizer-form", "what shares a scale, or its bounds, are of no form that is known")
    wide = DType.of(found.dtype) if not found.is_float8 else DType.FLOAT32
    if wide is None or found.dtype.itemsize > 2:
        raise refuse("quantizer-form", f"it quantizes to {found.dtype}, which float32 does not hold")
    if scales_of(found) is None and not isinstance(found.scale, Value):
        raise refuse("quantizer-scale", "its scale is 0, negative or not finite", "calibrate the model again")
    return found


def _data(call: Call, name: str) -> Value | None:
    """Scales or zero points, under either name, where they are tensors."""
    value = call.arguments.get(name, call.arguments.get(f"{name}s"))
    return value if isinstance(value, Value) else None
