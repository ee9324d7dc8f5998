"""The dtype in which PyTorch computes an op of several operands."""

from __future__ import annotations

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.refusal import refuse
from trtdiag.network.dtype import DType
from trtdiag.network.value import Value
from trtdiag.symbolic import Num, is_condition, is_integer


def promoted(call: Call, *names: str) -> DType:
    """The common dtype of arguments: tensors by their planned dtype, tensors without dims and numbers count less."""
    operands = [_stand_in(call.arguments[name]) for name in names]
    result = operands[0]
    dtype = torch.result_type(result, result) if isinstance(result, torch.Tensor) else None
    if len(operands) > 1:
        dtype = torch.result_type(operands[0], operands[1])
        for operand in operands[2:]:
            # Of three operands torch looks at all at once; dims decide first, so the first two are kept as one tensor.
            dims = any(isinstance(o, torch.Tensor) and o.dim() for o in operands[:2])
            dtype = torch.result_type(torch.empty([1] if dims else [], dtype=dtype, device="meta"), operand)
    found = DType.of(dtype) if dtype is not None else None
    if found is None:
        raise refuse("no-counterpart", f"it computes in {dtype}, which no engine tensor can be")
    if found is DType.INT64 and found.value not in call.write.target.dtypes:
        return DType.INT32  # of bools and a number: every tensor of integers is one of int32 there
    return found


def both(call: Call, left: str = "self", right: str = "other") -> tuple[Value, Value, DType]:
    """Two operands in their common dtype."""
    dtype = promoted(call, left, right)
    return call.operand(left, dtype), call.operand(right, dtype), dtype


def computed(call: Call) -> DType:
    """The dtype of the output, for ops that compute in it."""
    return call.out.dtype


def _stand_in(value: object) -> torch.Tensor | int | float | bool:
    if isinstance(value, Value):
        return torch.empty([1] if value.rank else [], dtype=value.dtype.torch, device="meta")
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Num):
        return int(value.value) if isinstance(value.value, int) else float(value.value)
    if is_condition(value):  # type: ignore[arg-type]
        return True
    return 1 if is_integer(value) else 1.0
