"""Other dtypes, and copies: what changes a tensor's type or nothing at all."""

from __future__ import annotations

import torch

from trtdiag.convert import Call, Writer, converter, refuse
from trtdiag.convert.layer_writers.quantized import rounded_to_float8, weight_by
from trtdiag.graph.quantizers import QUANTIZED_DTYPES
from trtdiag.network import DType, Value

_BESIDE_UINT8 = frozenset({DType.FLOAT32, DType.FLOAT16})


@converter
def same(call: Call) -> Value:
    """aten::dropout(Tensor input, float p, bool train) -> Tensor
    aten::feature_dropout(Tensor input, float p, bool train) -> Tensor
    aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor

    Without training; in training it draws random numbers.

    aten::alias(Tensor(a) self) -> Tensor(a)
    aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
    aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)
    aten::detach(Tensor(a) self) -> Tensor(a)
    aten::lift_fresh(Tensor(a) self) -> Tensor(a)
    aten::lift_fresh_copy(Tensor self) -> Tensor
    aten::positive(Tensor(a) self) -> Tensor(a)
    """
    return call.tensor(next(iter(call.arguments)))


@converter
def converted(call: Call) -> Value:
    """aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
        pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor
    aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False,
        MemoryFormat? memory_format=None) -> Tensor(a)
    aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat?
        memory_format=None) -> Tensor(a)
    aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
        pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)
    aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat?
        memory_format=None) -> Tensor(a)
    aten::type_as(Tensor self, Tensor other) -> Tensor

    To float8_e4m3fn by a Quantize layer with a scale of 1, from TensorRT 10 on.
    """
    content, dtype = call.held.get("self"), call.out.dtype
    if call.arguments.get("dtype") is torch.float8_e4m3fn:
        return rounded_to_float8(call.write, call.tensor("self"))
    if content is not None and content.dtype in QUANTIZED_DTYPES and dtype.is_float:
        return weight_by(call.write, content, dtype)
    return _as(call.write, call.tensor("self"), dtype)


@converter
def scalar_tensor(call: Call) -> Value:
    """aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
    """
    return call.operand("s", call.out.dtype)


@converter
def native_dropout(call: Call) -> list[Value]:
    """aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)

    Without training; in training it draws random numbers.
    """
    x = call.tensor("input")
    if call.arguments["train"] is None and call.number("p") != 0:  # PyTorch takes that for training
        raise refuse("random", "it draws random numbers in training", "export the model after model.eval()")
    return [x, call.write.filled(x.shape, True, DType.BOOL)]


def _as(write: Writer, x: Value, dtype: DType) -> Value:
    """``x`` in another dtype, as PyTorch converts it."""
    if dtype is DType.INT8 and x.dtype is not dtype:
        raise refuse(
            "narrow-integer",
            "it converts to int8, which TensorRT takes for quantized numbers with a scale",
            "convert to int32",
        )
    if DType.UINT8 in (x.dtype, dtype) and x.dtype is not dtype and not {x.dtype, dtype} & _BESIDE_UINT8:
        raise refuse(
            "narrow-integer",
            f"it converts {x.dtype.value} to {dtype.value}, and TensorRT converts uint8 to and from floats only",
            "convert to float32 first",
        )
    return write.cast(x, dtype)
