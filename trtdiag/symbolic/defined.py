"""What bounds alone show of conditions: that they are defined all over a box (no divisor can be zero), or hold."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.symbolic.bounds import BoundsCache
from trtdiag.symbolic.expr import Condition, Expr, FloorDiv, Mod, Num, Pow, TrueDiv
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import children, is_integer, is_total


def always_defined(node: Expr | Condition, box: Mapping[str, Range]) -> bool:
    """Whether ``node`` is seen to be defined at all points of ``box`` (False where that is not seen)."""
    return is_total(node) or _defined(node, BoundsCache(box))


def shown_by_bounds(condition: Condition, box: Mapping[str, Range]) -> bool:
    """Whether the bounds of both sides alone show that ``condition`` holds in the whole box."""
    return bool(BoundsCache(box).intervals.decide(condition)) and always_defined(condition, box)


def _defined(node: Expr | Condition, cache: BoundsCache) -> bool:
    if is_total(node):
        return True
    match node:
        case FloorDiv(_, right) | Mod(_, right) | TrueDiv(_, right):
            found = cache.of(right).range
            above, below = found.min is not None and found.min > 0, found.max is not None and found.max < 0
            if not (above or below) or not is_integer(right):
                return False
        case Pow(_, exponent) if not (isinstance(exponent, Num) and exponent.value >= 0):
            least = cache.of(exponent).range.min
            if least is None or least < 0 or not is_integer(exponent):
                return False
        case _:
            pass
    return all(_defined(child, cache) for child in children(node))
