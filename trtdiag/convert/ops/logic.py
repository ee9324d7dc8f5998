"""Operations on truth values and on bits."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.bitwise import flipped, masked, shifted_left, shifted_right
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.value import Value


@converter
def bitwise(call: Call) -> Value:
    """aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor
    aten::bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor
    aten::bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
    aten::__and__.Tensor(Tensor self, Tensor other) -> Tensor
    aten::__and__.Scalar(Tensor self, Scalar other) -> Tensor
    aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor
    aten::bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor
    aten::bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
    aten::__or__.Tensor(Tensor self, Tensor other) -> Tensor
    aten::__or__.Scalar(Tensor self, Scalar other) -> Tensor
    aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor
    aten::bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor
    aten::bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
    aten::__xor__.Tensor(Tensor self, Tensor other) -> Tensor
    aten::__xor__.Scalar(Tensor self, Scalar other) -> Tensor

    Of two integers one must be a number that is known when the network is built; bools are free.

    aten::logical_and(Tensor self, Tensor other) -> Tensor
    aten::logical_or(Tensor self, Tensor other) -> Tensor
    aten::logical_xor(Tensor self, Tensor other) -> Tensor
    """
    write, name = call.write, call.op_name.removeprefix("bitwise_").strip("_")
    dtype = DType.BOOL if name.startswith("logical_") else call.out.dtype
    op = Op[name.removeprefix("logical_").upper()]
    if dtype is DType.BOOL:
        return write.elementwise(op, call.operand("self", dtype), call.operand("other", dtype))
    for name, other in (("self", "other"), ("other", "self")):
        mask = _known(call, other)
        if mask is not None:
            return _with_mask(write, op, call.operand(name, dtype), mask)
    raise refuse(
        "integer-bits",
        "it combines the bits of two integer tensors, and TensorRT has no layer for bits of integers",
        "use bool tensors, or make one operand a Python number",
    )


@converter
def shift(call: Call) -> Value:
    """aten::bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor
    aten::bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor
    aten::__lshift__.Tensor(Tensor self, Tensor other) -> Tensor
    aten::__lshift__.Scalar(Tensor self, Scalar other) -> Tensor
    aten::bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor
    aten::bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor
    aten::__rshift__.Tensor(Tensor self, Tensor other) -> Tensor
    aten::__rshift__.Scalar(Tensor self, Scalar other) -> Tensor

    The number of places must be known when the network is built, and below the bits of the integer.
    """
    x = call.operand("self", call.out.dtype)
    places = _known(call, "other")
    if places is None:
        raise refuse(
            "shift-amount",
            "the number of places is known only when the network runs",
            "shift by a Python number, or multiply with a power of two",
        )
    left = call.op_name in ("bitwise_left_shift", "__lshift__")
    return (shifted_left if left else shifted_right)(call.write, x, places)


@converter
def inverted(call: Call) -> Value:
    """aten::logical_not(Tensor self) -> Tensor
    aten::bitwise_not(Tensor self) -> Tensor
    """
    x = call.operand("self", DType.BOOL if call.op_name == "logical_not" else call.out.dtype)
    return ~x if x.dtype is DType.BOOL else flipped(call.write, x)


def _known(call: Call, name: str) -> int | None:
    """An integer operand that is known: a number, or a tensor of the program that holds one."""
    if call.is_number(name):
        return int(call.number(name))
    content = call.held.get(name)
    if content is None or content.numel() != 1 or len(content.shape) > len(call.out.shape):
        return None
    # A tensor with dims may give the result more of them; then it is no number.
    other = call.tensor("self" if name == "other" else "other")
    return int(content.item()) if other.rank == len(call.out.shape) else None


def _with_mask(write: Writer, op: Op, x: Value, mask: int) -> Value:
    """``a | m`` is ``a + m - (a & m)``, ``a ^ m`` takes it away twice."""
    shared = masked(write, x, mask)
    if op is Op.AND:
        return shared
    if mask < 0:  # a + m might not fit; a | m is m with what a has beyond it, a ^ m is ~(a ^ ~m)
        if op is Op.XOR:
            return flipped(write, _with_mask(write, op, x, ~mask))
        return masked(write, x, ~mask) + write.scalar(mask, x)
    rest = x - shared
    if op is Op.OR:
        return rest + write.scalar(mask, x)
    return rest + (write.scalar(mask, x) - shared)
