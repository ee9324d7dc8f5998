"""Operations on truth values and on bits."""

from __future__ import annotations

import re

import torch

from trtdiag.convert import Call, Writer, converter, refuse
from trtdiag.convert.layer_writers.division import MOST_PLACES, integer_quotient
from trtdiag.network import DType, Value
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op


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


# Bits of integers, by quotients and rests: TensorRT has no operations on bits of integers.


def width(dtype: DType) -> int:
    """The number of bits."""
    return int(torch.iinfo(dtype.torch).bits)


def flipped(write: Writer, x: Value) -> Value:
    """Every bit the other way: ``-1 - x``."""
    return -1 - x


def shifted_left(write: Writer, x: Value, places: int) -> Value:
    """``x << places``."""
    if not 0 <= places < width(x.dtype):
        raise _outside(places)
    if places == width(x.dtype) - 1:  # 2 ** places is one more than the greatest number
        x, places = x + x, places - 1
    return x * (1 << places)


def shifted_right(write: Writer, x: Value, places: int) -> Value:
    """``x >> places``, which keeps the sign."""
    if not 0 <= places < width(x.dtype):
        raise _outside(places)
    while places > 0:  # in steps whose quotients are exact
        step = min(places, MOST_PLACES)
        x, places = integer_quotient(write, x, write.scalar(1 << step, x), 1 << step), places - step
    return x


def masked(write: Writer, x: Value, mask: int) -> Value:
    """``x & mask``: each run of ones in the mask is cut out by a quotient and a rest."""
    if mask < 0:  # all but the bits of ~mask
        return x if mask == -1 else x - masked(write, x, ~mask)
    if not mask:
        return x * 0

    def cut(low: int, high: int) -> Value:
        part = shifted_right(write, x, low) if low else x
        return shifted_left(write, _lowest(write, part, high - low), low) if low else _lowest(write, part, high)

    return write.fold(Op.SUM, (cut(low, high) for low, high in _runs(mask)))


def _lowest(write: Writer, x: Value, count: int) -> Value:
    """The lowest ``count`` bits as a number of 0 or more."""
    if count < width(x.dtype) - 1:
        return x - shifted_left(write, shifted_right(write, x, count), count)
    least = write.scalar(torch.iinfo(x.dtype.torch).min, x)
    return write.select(x < 0, x - least, x)


def _runs(mask: int) -> list[tuple[int, int]]:
    """Where ones stand beside each other: first place, and the one after the last."""
    return [run.span() for run in re.finditer("1+", f"{mask:b}"[::-1])]


def _outside(places: int) -> Exception:
    return refuse("shift-amount", f"it shifts by {places}, which is less than 0 or more than the bits of the number")
