"""Factors that PyTorch multiplies sizes with in floating point, where expressions have fractions."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from trtdiag.symbolic.expr import Condition, Expr, Num
from trtdiag.symbolic.tree import children

_EXACT_BITS = 21
"""Of a factor: with sizes below 2**32, products with it have the 53 bits of a float at most."""


@lru_cache(maxsize=4096)
def rounds(expr: Expr | Condition) -> bool:
    """Whether a factor such as 0.6 makes floats round where fractions do not: 5 * 0.6 is 3.0, and less as fractions."""
    if isinstance(expr, Num):
        return isinstance(expr.value, Fraction) and inexact(expr.value)
    return any(rounds(child) for child in children(expr))


def inexact(factor: int | Fraction) -> bool:
    """Whether products of sizes with ``factor`` have more bits than a float."""
    return max(map(abs, factor.as_integer_ratio())).bit_length() > _EXACT_BITS


def as_float(value: int | Fraction) -> Fraction:
    """The float next to a product, as PyTorch has it before it rounds it to a size.

    Raises:
        OverflowError: No float is so great.
    """
    return Fraction(float(value))
