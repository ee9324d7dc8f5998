"""The dtype in which PyTorch computes an op of several operands."""

from __future__ import annotations

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.refusal import refuse
from trtdiag.network.dtype import DType
from trtdiag.network.value import Value
from trtdiag.symbolic import is_condition, is_integer


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
