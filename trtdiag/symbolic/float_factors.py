"""What PyTorch computes of sizes in floating point, where expressions have fractions."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import sqrt

from trtdiag.symbolic.expr import Add, Ceil, Condition, Expr, Floor, FloorDiv, Mul, Num, Pow, TrueDiv, Trunc
from trtdiag.symbolic.tree import children, is_condition, is_integer

_MOST_OF_SUM = 1 << 10
HALF = Fraction(1, 2)
"""The exponent of a square root, the only one that is no whole number."""
_EXACT_BITS = 21
"""Of a factor: with sizes below 2**32, products with it have the 53 bits of a float at most."""


def rounds(expr: Expr | Condition) -> bool:
    """Whether floats round where fractions do not: 5 * 0.6 is 3.0, and no fraction; 49 * (64 / 49) is below 64."""
    return _floats(expr)[1]


def is_rounded(expr: Expr | Condition) -> bool:
    """Whether the float that ``expr`` is was rounded: whole numbers in it are exact, whatever made them."""
    if isinstance(expr, Num):
        return rounds(expr)
    if is_condition(expr) or is_integer(expr):
        return False
    return computes_with_quotient(expr) or _is_root(expr) or any(map(is_rounded, children(expr)))


def is_quotient(expr: Expr | Condition) -> bool:
    """Whether ``expr`` is a float that a division or a root made, or comes of one."""
    return _floats(expr)[0] or _by_fraction(expr)


def computes_with_quotient(expr: Expr | Condition) -> bool:
    """Whether ``expr`` multiplies, divides or adds a quotient, which was rounded before."""
    match expr:
        case Add(args):  # a fraction of a sum is one division, and stands here as a sum of fractions
            return sum(not isinstance(arg, Num) for arg in args) > 1 and any(_floats(arg)[0] for arg in args)
        case Mul() | TrueDiv():
            return any(map(is_quotient, children(expr)))
        case _:
            return False


@lru_cache(maxsize=1 << 13)
def _floats(expr: Expr | Condition) -> tuple[bool, bool]:
    """Whether ``expr`` comes of a division by a size or of a root, and whether it ``rounds``."""
    if isinstance(expr, Num):
        return False, isinstance(expr.value, Fraction) and inexact(expr.value)
    parts = tuple(map(_floats, children(expr)))
    whole = isinstance(expr, Floor | Ceil | Trunc | FloorDiv) or is_condition(expr)
    root = _is_root(expr)
    quotient = not whole and (root or isinstance(expr, TrueDiv) or any(part[0] for part in parts))
    return quotient, root or computes_with_quotient(expr) or any(part[1] for part in parts)


def _is_root(expr: Expr | Condition) -> bool:
    return isinstance(expr, Pow) and expr.exponent == Num(HALF)


def root_of(value: int | Fraction) -> Fraction:
    """The float next to the square root.

    Raises:
        ZeroDivisionError: ``value`` is negative, where there is none.
        OverflowError: No float is so great.
    """
    if value < 0:
        raise ZeroDivisionError("a negative number has no square root")
    return Fraction(sqrt(value))


def _by_fraction(expr: Expr | Condition) -> bool:
    """Whether ``expr`` is a product such as ``h / 30``, in one step."""
    if not isinstance(expr, Mul) or not isinstance(expr.args[0], Num):
        return False
    bottom = expr.args[0].value.denominator
    return bottom.bit_count() > 1 or inexact(expr.args[0].value)


def inexact(factor: int | Fraction) -> bool:
    """Whether products of sizes with ``factor`` have more bits than a float."""
    return max(map(abs, factor.as_integer_ratio())).bit_length() > _EXACT_BITS


def as_float(value: int | Fraction) -> Fraction:
    """The float next to a product, as PyTorch has it before it rounds it to a size.

    Raises:
        OverflowError: No float is so great.
    """
    return Fraction(float(value))


def is_float(value: Fraction) -> bool:
    """Whether a float has just this value; a sum of two often has more digits."""
    return value == 0 or (abs(value) < 1 << 64 and as_float(value) == value)


def simplest(value: int | Fraction) -> int | Fraction:
    """The fraction of the smallest numbers that is this float: 3 / 5 for 0.6.

    A quotient of two sizes is equal to it, below or above where it is so as a float: two quotients of sizes below 2**21
    are farther apart than floats are.  What sums of floats make is near such a fraction: -5 of 0.1 - 5.1.
    """
    if isinstance(value, int) or not inexact(value):
        return value
    near = value.limit_denominator(1 << _EXACT_BITS)
    if as_float(near) == value and not inexact(near):
        return near
    near = value.limit_denominator(_MOST_OF_SUM)
    return near if abs(near - value) <= abs(value) / (1 << 48) else value
