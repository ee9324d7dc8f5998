"""Arrays of integers that never overflow: int64 while an interval shows that it suffices, Python integers beyond.

Every array carries bounds of its values.  An operation first bounds its result; where that leaves int64, the true
ends of the operands are looked up, and only if these leave it too the operands become object arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from trtdiag.symbolic import ends
from trtdiag.symbolic.ends import Ends

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Ints:
    """Integers with bounds; ``values`` is a Python integer where all are the same."""

    values: Array | int
    low: int
    high: int

    @property
    def constant(self) -> int | None:
        """The value, where it is one for all."""
        return self.values if isinstance(self.values, int) else None

    def tight(self) -> Ints:
        """The same with the true ends as bounds."""
        if isinstance(self.values, int) or self.values.size == 0:
            return self
        return Ints(self.values, int(self.values.min()), int(self.values.max()))


def ints(values: Array | int) -> Ints:
    """Integers from an array or a number."""
    if isinstance(values, int):
        return Ints(values, values, values)
    if values.size == 0:
        return Ints(values, 0, 0)
    if values.dtype != object and values.dtype != np.int64:
        values = values.astype(np.int64 if values.dtype.itemsize < 8 or values.dtype.kind == "i" else object)
    return Ints(values, int(values.min()), int(values.max()))


def _fits(low: int, high: int) -> bool:
    return low >= _LOW and high <= _HIGH


def _object(operand: Ints) -> Array | int:
    if isinstance(operand.values, int) or operand.values.dtype == object:
        return operand.values
    return operand.values.astype(object)


_Act = Callable[[Any, Any], Any]


def _operation(act: _Act, bound: Callable[[Ends, Ends], Any]) -> Callable[[Ints, Ints], Ints]:
    def apply(left: Ints, right: Ints) -> Ints:
        if isinstance(left.values, int) and isinstance(right.values, int):
            return ints(int(act(left.values, right.values)))
        low, high = bound((left.low, left.high), (right.low, right.high))
        wide = _fits(left.low, left.high) and _fits(right.low, right.high)
        if wide and not _fits(low, high):
            left, right = left.tight(), right.tight()
            low, high = bound((left.low, left.high), (right.low, right.high))
        if wide and _fits(low, high):
            return Ints(act(left.values, right.values), low, high)
        return Ints(act(_object(left), _object(right)), low, high)

    return apply


add = _operation(operator.add, ends.plus)
mul = _operation(operator.mul, ends.times)
# No divisor may be zero.
floordiv = _operation(operator.floordiv, partial(ends.floor_divided, integral=True))
mod = _operation(operator.mod, partial(ends.remainder, integral=True))
least = _operation(np.minimum, ends.least)
greatest = _operation(np.maximum, ends.greatest)


def choose(mask: Array, then: Ints, otherwise: Ints) -> Ints:
    """``then`` where ``mask`` is True, ``otherwise`` elsewhere."""
    low, high = min(then.low, otherwise.low), max(then.high, otherwise.high)
    wide = None if _fits(low, high) else object
    picked = np.where(mask, *(np.asarray(part.values, dtype=wide) for part in (then, otherwise)))
    return Ints(picked, low, high)


def comparable(left: Ints, right: Ints) -> tuple[Array | int, Array | int]:
    """Both as operands that numpy compares exactly: an int64 array beside a larger number would become floats."""
    if _fits(left.low, left.high) and _fits(right.low, right.high):
        return left.values, right.values
    return _object(left), _object(right)


def nonzero_mask(divisor: Ints) -> Array | bool:
    """Where ``divisor`` is not zero; a plain bool where that is the same for all."""
    if isinstance(divisor.values, int):
        return divisor.values != 0
    if divisor.low > 0 or divisor.high < 0:
        return True
    mask = np.asarray(divisor.values != 0, dtype=bool)
    return True if bool(mask.all()) else mask


def without_zeros(divisor: Ints, mask: Array | bool) -> Ints:
    """``divisor`` with 1 in place of zeros, which ``mask`` marks False."""
    if isinstance(mask, bool):
        return divisor if mask else ints(1)
    return choose(mask, divisor, ints(1))
