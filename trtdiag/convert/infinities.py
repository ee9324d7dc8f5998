"""Comparing with an infinite number and choosing one, for targets whose layers take another number for it.

TensorRT 8.6.0 (seen on an H200, at optimization levels 0 and 3) takes a constant of one element that is infinite for
1e38 or -1e38 where a float32 is compared with it or where it is chosen; in sums it stays infinite, and so it does in
float16, and in a constant of as many elements as the other tensor has.  The greatest finite number stays what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trtdiag.dtypes.plan_doubles import FLOAT32_MAX
from trtdiag.network import DType, Value
from trtdiag.network.layers import Cast, Constant, SampleMode, Shuffle, Slice, Squeeze, Unary, UnaryOperation, Unsqueeze
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation as Op, Select
from trtdiag.symbolic import Num

if TYPE_CHECKING:
    from trtdiag.convert.writer import Writer

_MOST_LAYERS = 4
"""Own choice: a number gets its dims and is repeated; more layers do something else."""
_MIRRORED = {Op.EQUAL: Op.EQUAL, Op.LESS: Op.GREATER, Op.GREATER: Op.LESS}


def infinite_number(write: Writer, value: Value) -> float | None:
    """The infinity that a float32 is everywhere, where it comes from a constant of one element; else ``None``."""
    if value.dtype is not DType.FLOAT32:
        return None
    for _ in range(_MOST_LAYERS):
        layer = value.made_by
        if isinstance(layer, Constant):
            weight = write.builder.weight(layer)
            return float(weight) if weight.numel() == 1 and bool(weight.isinf()) else None
        moves = isinstance(layer, (Shuffle, Squeeze, Unsqueeze))
        if not moves and not (isinstance(layer, Slice) and layer.mode is SampleMode.STRICT_BOUNDS):
            return None
        value = value.sources[0]
    return None


def compared(write: Writer, op: Op, left: Value, right: Value) -> Value | None:
    """The comparison by the greatest finite number where one side is infinite; ``None`` where none is."""
    if op not in _MIRRORED:
        return None
    bound = infinite_number(write, right)
    if bound is None:
        bound = infinite_number(write, left)
        left, op = right, _MIRRORED[op]
    if bound is None:
        return None
    greatest = write.scalar(FLOAT32_MAX if bound > 0 else -FLOAT32_MAX, left)
    beyond, within = (Op.GREATER, Op.LESS) if bound > 0 else (Op.LESS, Op.GREATER)
    if op is Op.EQUAL:
        return write.add(ElementWise(beyond), left, greatest)
    if op is beyond:  # nothing is, NaN neither
        return write.add(ElementWise(op), left, left)
    inside = write.add(ElementWise(within), left, greatest)
    return write.add(ElementWise(Op.OR), inside, write.add(ElementWise(Op.EQUAL), left, greatest))


def chosen(write: Writer, condition: Value, then: Value, otherwise: Value) -> Value | None:
    """The choice with the logarithm of 0 for an infinite number; ``None`` where neither is one."""
    for value, other, holds in ((then, otherwise, True), (otherwise, then, False)):
        bound = infinite_number(write, value)
        # The logarithm is in the condition's shape: a choice that only the number's own shape widens stays.
        if bound is None or (
            any(size != Num(1) for size in value.shape) and value.shape not in (other.shape, condition.shape)
        ):
            continue
        elsewhere = write.add(Unary(UnaryOperation.NOT), condition) if holds else condition
        made = write.add(Unary(UnaryOperation.LOG), write.add(Cast(DType.FLOAT32), elsewhere))
        if bound > 0:
            made = write.add(Unary(UnaryOperation.NEG), made)
        return write.add(Select(), condition, *((made, other) if holds else (other, made)))
    return None
