"""Tensors of one number: zeros, ones, full, and copies into the shape of another tensor."""

from __future__ import annotations

from collections.abc import Callable

from trtdiag.convert.call import Call
from trtdiag.convert.registry import converter, register
from trtdiag.network.builder import Value

_OPTIONS = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
_FORMAT = f"{_OPTIONS}, MemoryFormat? memory_format=None"
_UNSET = "Its elements have no content to keep: they are zeros."


def _full_of(number: int) -> Callable[[Call], Value]:
    def filled(call: Call) -> Value:
        return call.write.filled(call.out.shape, number, call.out.dtype)

    filled.__module__ = __name__
    return filled


for _name, _number in (("zeros", 0), ("ones", 1)):
    register(f"aten::{_name}(SymInt[] size, {_OPTIONS}) -> Tensor", _full_of(_number))
    register(f"aten::{_name}_like(Tensor self, {_FORMAT}) -> Tensor", _full_of(_number))
    register(f"aten::new_{_name}(Tensor self, SymInt[] size, {_OPTIONS}) -> Tensor", _full_of(_number))

for _schema in (
    f"aten::empty.memory_format(SymInt[] size, {_FORMAT}) -> Tensor",
    f"aten::empty_like(Tensor self, {_FORMAT}) -> Tensor",
    f"aten::new_empty(Tensor self, SymInt[] size, {_OPTIONS}) -> Tensor",
    f"aten::empty_strided(SymInt[] size, SymInt[] stride, {_OPTIONS}) -> Tensor",
    f"aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, {_OPTIONS}) -> Tensor",
    f"aten::empty_permuted(SymInt[] size, int[] physical_layout, {_OPTIONS}) -> Tensor",
):
    register(_schema, _full_of(0), _UNSET)


def full(call: Call) -> Value:
    """The number in every element; it may be a size."""
    return _spread(call, call.operand("fill_value", call.out.dtype))


register(f"aten::full(SymInt[] size, Scalar fill_value, {_OPTIONS}) -> Tensor", full)
register(f"aten::full_like(Tensor self, Scalar fill_value, {_FORMAT}) -> Tensor", full)
register(f"aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, {_OPTIONS}) -> Tensor", full)


@converter
def fill(call: Call) -> Value:
    """aten::fill.Scalar(Tensor self, Scalar value) -> Tensor"""
    return _spread(call, call.operand("value", call.out.dtype))


register("aten::fill.Tensor(Tensor self, Tensor value) -> Tensor", fill)


@converter
def copy(call: Call) -> Value:
    """aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    return _spread(call, call.operand("src", call.out.dtype))


@converter
def lift(call: Call) -> Value:
    """aten::lift(Tensor self) -> Tensor"""
    return call.tensor("self")


def _spread(call: Call, value: Value) -> Value:
    return call.write.broadcast_to(value, call.out.shape)
