"""Arithmetic on pairs of ends; ``None`` is an open end."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from math import ceil, floor

from trtdiag.symbolic.build import Number
from trtdiag.symbolic.float_factors import HALF, root_of

Ends = tuple[Number | None, Number | None]
ANY: Ends = (None, None)
MOST_POWER = 64


def plus(left: Ends, right: Ends) -> Ends:
    """Ends of ``a + b``."""
    low = None if left[0] is None or right[0] is None else left[0] + right[0]
    high = None if left[1] is None or right[1] is None else left[1] + right[1]
    return low, high


def flipped(ends: Ends) -> Ends:
    """Ends of ``-a``."""
    return None if ends[1] is None else -ends[1], None if ends[0] is None else -ends[0]


def hull(left: Ends, right: Ends) -> Ends:
    """Ends around both."""
    low = None if left[0] is None or right[0] is None else min(left[0], right[0])
    high = None if left[1] is None or right[1] is None else max(left[1], right[1])
    return low, high


def meet(left: Ends, right: Ends) -> Ends:
    """The tighter of both ends."""
    lows = [end for end in (left[0], right[0]) if end is not None]
    highs = [end for end in (left[1], right[1]) if end is not None]
    return max(lows) if lows else None, min(highs) if highs else None


def least(left: Ends, right: Ends) -> Ends:
    """Ends of the smaller of two."""
    return hull(left, right)[0], meet(left, right)[1]


def greatest(left: Ends, right: Ends) -> Ends:
    """Ends of the greater of two."""
    return meet(left, right)[0], hull(left, right)[1]


def rounded(ends: Ends, rounding: Callable[[Number], Number]) -> Ends:
    """Ends of values that are rounded in a way that keeps their order."""
    return None if ends[0] is None else rounding(ends[0]), None if ends[1] is None else rounding(ends[1])


def outwards(ends: Ends) -> Ends:
    """Ends of whole numbers around values, or of the changes of values that are rounded."""
    return None if ends[0] is None else floor(ends[0]), None if ends[1] is None else ceil(ends[1])


def spread(ends: Ends) -> Ends:
    """Ends of the difference of any two values."""
    if ends[0] is None or ends[1] is None:
        return ANY
    return ends[0] - ends[1], ends[1] - ends[0]


def times(left: Ends, right: Ends) -> Ends:
    """Ends of ``a * b``."""
    if left == (0, 0) or right == (0, 0):
        return 0, 0
    if left[0] is None or left[1] is None or right[0] is None or right[1] is None:
        return _open_product(left, right)
    corners = (left[0] * right[0], left[0] * right[1], left[1] * right[0], left[1] * right[1])
    return min(corners), max(corners)


def _open_product(left: Ends, right: Ends) -> Ends:
    reached: list[Number] = []
    open_signs: set[int] = set()
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            sign = _sign(a, i) * _sign(b, j)
            if sign == 0:
                reached.append(0)  # a zero end times an open one, too
            elif a is None or b is None:
                open_signs.add(sign)
            else:
                reached.append(a * b)
    low = None if -1 in open_signs else min(reached, default=None)
    return low, None if 1 in open_signs else max(reached, default=None)


def _sign(end: Number | None, upper: int) -> int:
    if end is None:
        return 1 if upper else -1
    return (end > 0) - (end < 0)


def divided(top: Ends, bottom: Ends) -> Ends:
    """Ends of ``a / b`` over the ``b`` that are not zero."""
    return _divided(top, bottom, lambda a, b: 0 if b is None else Fraction(a) / b)


def floor_divided(top: Ends, bottom: Ends, *, integral: bool) -> Ends:
    """Ends of ``a // b`` over the ``b`` that are not zero; ``integral`` says that ``b`` is an integer."""
    return _divided(top, bottom, lambda a, b: (-1 if a < 0 else 0) if b is None else a // b, integral=integral)


def _divided(
    top: Ends, bottom: Ends, share: Callable[[Number, Number | None], Number], *, integral: bool = False
) -> Ends:
    if bottom[0] is not None and bottom[0] > 0:
        least, most = bottom
        low = None if top[0] is None else share(top[0], most if top[0] >= 0 else least)
        high = None if top[1] is None else share(top[1], least if top[1] >= 0 else most)
        return low, high
    if bottom[1] is not None and bottom[1] < 0:
        return _divided(flipped(top), flipped(bottom), share, integral=integral)
    # Integers on both sides of zero, which itself is left out.
    above = integral and (bottom[1] is None or bottom[1] >= 1)
    below = integral and (bottom[0] is None or bottom[0] <= -1)
    sides = [(1, bottom[1])] * above + [(bottom[0], -1)] * below
    return reduce(hull, (_divided(top, side, share) for side in sides)) if sides else ANY


def remainder(top: Ends, bottom: Ends, *, integral: bool) -> Ends:
    """Ends of ``a % b`` over the ``b`` that are not zero."""
    least, most = bottom
    if least is not None and least > 0:
        if top[0] is not None and top[1] is not None and least == most and top[0] // least == top[1] // least:
            return top[0] % least, top[1] % least
        if top[0] is not None and top[0] >= 0 and top[1] is not None and top[1] < least:
            return top
        high = None if most is None else most - 1 if integral else most
        return 0, high if top[0] is None or top[0] < 0 else meet((0, high), (0, top[1]))[1]
    if most is not None and most < 0:
        return flipped(remainder(flipped(top), flipped(bottom), integral=integral))
    inside = 1 if integral else 0
    return None if least is None else min(0, least + inside), None if most is None else max(0, most - inside)


def to_power(base: Ends, exponent: Ends) -> Ends:
    """Ends of ``a ** n`` for ``n >= 0``."""
    count = exponent[0]
    if exponent == (HALF, HALF):
        low, high = (None if end is None else root_of(max(end, 0)) for end in base)
        return low or 0, high
    if count is None or count != exponent[1] or not isinstance(count, int) or not 0 <= count <= MOST_POWER:
        return (0, None) if base[0] is not None and base[0] >= 0 else ANY
    low = None if base[0] is None else base[0] ** count
    high = None if base[1] is None else base[1] ** count
    if count % 2 == 1:
        return low, high
    if count == 0:
        return 1, 1
    if base[0] is not None and base[0] >= 0:
        return low, high
    if base[1] is not None and base[1] <= 0:
        return high, low
    return 0, None if low is None or high is None else max(low, high)


def undecided_change(top: Ends, top_change: Ends, bottom_change: Ends) -> Ends:
    """Ends of the change of ``a / b`` with ``b > 0`` where both change: only its sign is seen."""
    rises, falls = top_change[0] is not None and top_change[0] >= 0, top_change[1] is not None and top_change[1] <= 0
    widens = bottom_change[0] is not None and bottom_change[0] >= 0
    narrows = bottom_change[1] is not None and bottom_change[1] <= 0
    positive, negative = top[0] is not None and top[0] >= 0, top[1] is not None and top[1] <= 0
    if rises and ((positive and narrows) or (negative and widens)):
        return 0, None
    if falls and ((positive and widens) or (negative and narrows)):
        return None, 0
    return ANY
