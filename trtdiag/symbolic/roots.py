"""Where polynomials with integer coefficients change sign over the integers, exactly.

A polynomial is a sequence of coefficients, the constant first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import dropwhile, pairwise
from math import comb
from typing import Any, TypeVar

import numpy.typing as npt

Coefficients = Sequence[int]
Coefficient = TypeVar("Coefficient", int, npt.NDArray[Any])


def value_at(coefficients: Sequence[Coefficient], point: int) -> Coefficient:
    """The value of the polynomial, or of one for each element of arrays of coefficients."""
    return reduce(lambda total, coefficient: total * point + coefficient, reversed(coefficients))


def trimmed(coefficients: Coefficients) -> list[int]:
    """Without leading zeros; the zero polynomial is empty."""
    return list(dropwhile(lambda coefficient: coefficient == 0, reversed(coefficients)))[::-1]


def root_bound(coefficients: Coefficients) -> int:
    """An integer beyond whose negative and positive the sign never changes (Cauchy's bound)."""
    poly = trimmed(coefficients)
    if len(poly) < 2:
        return 0
    return 2 + max(abs(c) for c in poly[:-1]) // abs(poly[-1])


def forward_difference(coefficients: Coefficients) -> list[int]:
    """The polynomial ``p(t + 1) - p(t)``."""
    size = len(coefficients)
    return [sum(coefficients[i] * comb(i, lower) for i in range(lower + 1, size)) for lower in range(size - 1)]


def sign_changes(coefficients: Coefficients, low: int | None, high: int | None) -> list[int]:
    """All ``t`` with ``low < t <= high`` where the sign (-1, 0, 1) differs from that at ``t - 1``, in order."""
    poly = trimmed(coefficients)
    if len(poly) < 2:
        return []
    bound = root_bound(poly)
    start = -bound if low is None else max(low, -bound)
    stop = bound if high is None else min(high, bound)
    if start >= stop:
        return []
    found: list[int] = []
    # Between the sign changes of its difference a polynomial is monotone, so each sign is found by bisection.
    turns = sign_changes(forward_difference(poly), start, stop - 1)
    edges = [start, *turns, stop]
    for left, right in pairwise(edges):
        found.extend(_monotone_changes(poly, left, right))
    return sorted(set(found))


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _monotone_changes(poly: Coefficients, left: int, right: int) -> list[int]:
    changes: list[int] = []
    sign = _sign(value_at(poly, left))
    last = _sign(value_at(poly, right))
    while sign != last:
        low, high = left, right
        while high - low > 1:
            middle = (low + high) // 2
            if _sign(value_at(poly, middle)) == sign:
                low = middle
            else:
                high = middle
        changes.append(high)
        left, sign = high, _sign(value_at(poly, high))
    return changes


def extremes(coefficients: Coefficients, low: int | None, high: int | None) -> tuple[int | None, int | None]:
    """The least and greatest value for ``low <= t <= high``; ``None`` where it has none."""
    poly = trimmed(coefficients)
    if len(poly) < 2:
        constant = poly[0] if poly else 0
        return constant, constant
    anchors = {end for end in (low, high) if end is not None}
    for turn in sign_changes(forward_difference(poly), low, None if high is None else high - 1):
        anchors.update((turn, turn + 1) if high is None or turn < high else (turn,))
    if not anchors:
        anchors.add(0)
    values = [value_at(poly, anchor) for anchor in anchors]
    ends: list[int] = []
    if high is None:
        ends.append(_sign(poly[-1]))
    if low is None:
        ends.append(_sign(poly[-1]) * (-1 if len(poly) % 2 == 0 else 1))
    return None if -1 in ends else min(values), None if 1 in ends else max(values)
