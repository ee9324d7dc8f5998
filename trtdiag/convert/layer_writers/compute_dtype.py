"""The dtype in which PyTorch computes an op of several operands, and in which a composition is computed."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.symbolic import is_condition, is_integer

_SIXTEEN_BITS = (DType.FLOAT16, DType.BFLOAT16)


def in_float32(write: Writer, compose: Callable[..., Value], *values: Value) -> Value:
    """``compose(*values)``, for 16 bit floats computed in float32 and rounded once, as PyTorch does."""
    dtype = values[0].dtype
    if dtype not in _SIXTEEN_BITS:
        return compose(*values)
    return write.cast(compose(*(write.cast(value, DType.FLOAT32) for value in values)), dtype)


def beside_numbers(call: Call, dtype: DType, *names: str) -> DType:
    """float32 in the place of ``dtype`` where that has less than its usual digits for a number among the arguments.

    PyTorch multiplies and divides 16 bit floats by numbers in float32.  In float16 1e-8 is 0, and 1e5 is infinite.
    """
    if dtype not in _SIXTEEN_BITS:
        return dtype
    limits = torch.finfo(dtype.torch)
    sizes = [abs(float(call.number(name))) for name in names if call.is_number(name)]
    coarse = any(size > limits.max or 0 < size < limits.tiny for size in sizes if isfinite(size))
    return DType.FLOAT32 if coarse else dtype


def promoted(call: Call, left: str, right: str) -> DType:
    """The common dtype of arguments: tensors by their planned dtype, tensors without dims and numbers count less."""
    dtype = torch.result_type(_stand_in(call.arguments[left]), _stand_in(call.arguments[right]))
    found = DType.of(dtype)
    if found is None:
        raise refuse("no-counterpart", f"it computes in {dtype}, which no engine tensor can be")
    if found is DType.INT64 and found.value not in call.write.target.dtypes:
        return DType.INT32  # of bools and a number: every tensor of integers is one of int32 there
    return found


def both(call: Call, left: str = "self", right: str = "other") -> tuple[Value, Value, DType]:
    """Two operands in their common dtype."""
    dtype = promoted(call, left, right)
    return call.operand(left, dtype), call.operand(right, dtype), dtype


def _stand_in(value: object) -> torch.Tensor | int | float | bool:
    if isinstance(value, Value):
        return torch.empty([1] if value.rank else [], dtype=value.dtype.torch, device="meta")
    if isinstance(value, (bool, int, float)):
        return value
    if is_condition(value):  # type: ignore[arg-type]
        return True
    return 1 if is_integer(value) else 1.0
