"""Polynomials in ``t``, one for each residue, as arrays of exact integers over one denominator.

Under ``h = P*t + r`` an expression with divisors becomes one polynomial in ``t`` for each residue ``r`` (see
``piecewise_polynomials``).  All residues are computed at once: coefficient ``i`` is an object array over the residues.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from math import gcd, lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from trtdiag.symbolic.patterns import Mask
from trtdiag.symbolic.roots import value_at

Vector = npt.NDArray[Any]  # object dtype: Python integers


class NotApplicableError(Exception):
    """This algebra cannot say it; the reason is a readable clause."""


class EnlargeError(Exception):
    """The period must be multiplied by ``factor`` to go on."""

    def __init__(self, factor: int) -> None:
        super().__init__(f"the period must be {factor} times as large")
        self.factor = factor


MOST_DEGREE = 8


@dataclass(frozen=True, slots=True)
class Poly:
    """``sum(coefficients[i] * t**i) / scale`` where ``defined`` (``None``: everywhere)."""

    coefficients: tuple[Vector, ...]
    scale: int = 1
    defined: Mask | None = None

    @property
    def degree(self) -> int:
        """The highest power written; its coefficient may be zero for some residues but not for all."""
        return len(self.coefficients) - 1


def poly(coefficients: list[Vector], scale: int = 1, defined: Mask | None = None) -> Poly:
    """A polynomial without powers that are zero for all residues.

    Raises:
        NotApplicableError: The degree is too high.
    """
    while len(coefficients) > 1 and not coefficients[-1].any():
        coefficients = coefficients[:-1]
    if len(coefficients) > MOST_DEGREE + 1:
        raise NotApplicableError(f"it is a polynomial of degree {len(coefficients) - 1}")
    return Poly(tuple(coefficients), scale, defined)


def constant(value: int, period: int, scale: int = 1) -> Poly:
    """The same number for all residues."""
    return Poly((np.full(period, value, dtype=object),), scale)


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    """Where both are defined."""
    if left is None or right is None:
        return left if right is None else right
    return left & right


def add(left: Poly, right: Poly) -> Poly:
    """The sum."""
    first, second, scale = _over_one_scale(left, right)
    total = [a + b for a, b in zip(first, second, strict=False)]
    total += first[len(second) :] or second[len(first) :]
    return poly(total, scale, both(left.defined, right.defined))


def scaled(operand: Poly, factor: int) -> Poly:
    """``factor * operand``."""
    return poly([part * factor for part in operand.coefficients], operand.scale, operand.defined)


def mul(left: Poly, right: Poly) -> Poly:
    """The product."""
    period = len(left.coefficients[0])
    total = [np.zeros(period, dtype=object) for _ in range(left.degree + right.degree + 1)]
    for i, a in enumerate(left.coefficients):
        for j, b in enumerate(right.coefficients):
            total[i + j] = total[i + j] + a * b
    return poly(total, left.scale * right.scale, both(left.defined, right.defined))


def floordiv_vector(top: Poly, divisors: Vector) -> Poly:
    """``top // divisors`` with one positive divisor for each residue.

    Raises:
        EnlargeError: The quotient is no polynomial for this period.
    """
    whole = divisors * top.scale
    factor = 1
    for part in top.coefficients[1:]:
        if (part % whole).any():
            needed = [d // gcd(d, int(c)) for c, d in zip(part, whole, strict=True)]
            factor = max(factor, *needed)
    if factor > 1:
        raise EnlargeError(factor)
    return poly([part // whole for part in top.coefficients], 1, top.defined)


def at(operand: Poly, point: int) -> Poly:
    """The constants that ``operand`` is at ``t = point``."""
    return Poly((value_at(operand.coefficients, point),), operand.scale, operand.defined)


def choose(flags: Mask, then: Poly, otherwise: Poly) -> Poly:
    """``then`` for the residues in ``flags``, ``otherwise`` for the rest."""
    first, second, scale = _over_one_scale(then, otherwise)
    zero = np.zeros(len(flags), dtype=object)
    parts: list[Vector] = [np.where(flags, a, b) for a, b in zip_longest(first, second, fillvalue=zero)]
    sides = [True if side.defined is None else side.defined for side in (then, otherwise)]
    defined = None if then.defined is otherwise.defined is None else np.where(flags, *sides)
    return poly(parts, scale, defined)


def divide_constant(top: Poly, bottom: Poly) -> Poly:
    """``top // bottom`` for divisors that do not grow with ``t``; undefined where one is zero."""
    divisors = bottom.coefficients[0]
    zero = divisors == 0
    signs = np.where(divisors < 0, -1, 1).astype(object)
    safe = np.where(zero, 1, divisors * signs)
    flipped = poly([part * signs * bottom.scale for part in top.coefficients], top.scale, top.defined)
    result = floordiv_vector(flipped, safe)
    defined = both(both(top.defined, bottom.defined), None if not zero.any() else np.asarray(~zero, dtype=bool))
    return replace(result, defined=defined)


def long_division(top: Poly, bottom: Poly) -> tuple[Poly, Poly]:
    """``top == quotient * bottom + rest`` with an integer quotient and a rest that is smaller for large ``t``."""
    period = len(top.coefficients[0])
    above, below, _ = _over_one_scale(top, bottom)
    top, bottom = poly(above, 1, top.defined), poly(below, 1, bottom.defined)
    lead = bottom.coefficients[-1]
    if not bool((lead != 0).all()):
        raise NotApplicableError("the divisors of some residues grow faster than those of others")
    rest = top
    total = constant(0, period)
    for power in range(top.degree - bottom.degree, -1, -1):
        if rest.degree < power + bottom.degree:
            continue
        head = rest.coefficients[power + bottom.degree]
        if power > 0 and (head % lead).any():
            raise EnlargeError(max(abs(d) // gcd(int(c), int(d)) for c, d in zip(head, lead, strict=True)))
        share: list[Vector] = [np.zeros(period, dtype=object) for _ in range(power)]
        step = poly([*share, head // lead])
        total = add(total, step)
        rest = add(rest, scaled(mul(step, bottom), -1))
    return total, rest


def _over_one_scale(left: Poly, right: Poly) -> tuple[list[Vector], list[Vector], int]:
    """The coefficients of both over their least common scale, and that scale."""
    scale = lcm(left.scale, right.scale)
    first, second = (
        [part * (scale // side.scale) for part in side.coefficients] if side.scale != scale else [*side.coefficients]
        for side in (left, right)
    )
    return first, second, scale
