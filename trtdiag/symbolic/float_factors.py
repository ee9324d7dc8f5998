"""Factors that PyTorch multiplies sizes with in floating point, where expressions have fractions."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from trtdiag.symbolic.bounds import bounds
from trtdiag.symbolic.expr import Condition, Expr, Num
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import children

_EXACT_BITS = 21
"""Of a factor: with sizes below 2**32, products with it have the 53 bits of a float at most."""


@lru_cache(maxsize=4096)
def rounds(expr: Expr | Condition) -> bool:
    """Whether a factor such as 0.6 makes floats round where fractions do not: 5 * 0.6 is 3.0, and less as fractions."""
    if isinstance(expr, Num):
        return (
            isinstance(expr.value, Fraction) and max(map(abs, expr.value.as_integer_ratio())).bit_length() > _EXACT_BITS
        )
    return any(rounds(child) for child in children(expr))


def rounded_bounds(expr: Expr, ranges: Mapping[str, Range]) -> Range:
    """The bounds of a size over ``ranges``, with one more at each end where it ``rounds``."""
    found = bounds(expr, ranges).range
    if not rounds(expr):
        return found
    return Range(None if found.min is None else found.min - 1, None if found.max is None else found.max + 1)
