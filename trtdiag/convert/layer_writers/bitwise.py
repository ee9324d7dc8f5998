"""Bits of integers, by quotients and rests: TensorRT has no operations on bits of integers."""

from __future__ import annotations

import re

import torch

from trtdiag.convert.layer_writers.division import integer_rest
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.value import Value


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
    if places == width(x.dtype) - 1:
        x, places = x // 2, places - 1
    return x // (1 << places)


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
        return integer_rest(write, x, write.scalar(1 << count, x), floored=True)
    least = write.scalar(torch.iinfo(x.dtype.torch).min, x)
    return write.select(x < 0, x - least, x)


def _runs(mask: int) -> list[tuple[int, int]]:
    """Where ones stand beside each other: first place, and the one after the last."""
    return [run.span() for run in re.finditer("1+", f"{mask:b}"[::-1])]


def _outside(places: int) -> Exception:
    return refuse("shift-amount", f"it shifts by {places}, which is less than 0 or more than the bits of the number")
