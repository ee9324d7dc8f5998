"""Fourier transforms as products with constant matrices: which are worth it, and the matrices.

A transform of n points is one product with a matrix of n x n exponentials, or, of n = a b points, two smaller ones
with a factor for each element between them (Cooley and Tukey).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from trtdiag.lower.complex.pair import Pair

MOST_TERMS = 512
"""The longest sum that a product may have for each point: n of one product, a + b of two.

On one core of a CPU (``benchmarks/fourier_products.py``) one product takes 4 to 25 times as long as an FFT up to here,
less where the length is prime, and two take 4 to 16 times as long.  Two begin to be faster than one at about 400
points; on a GPU, whose arithmetic is faster beside its memory, that is later.
"""


class TooLongError(Exception):
    """A transform that is left to an FFT.

    Args:
        points: Its length.
        factor: The largest factor of it up to its root.
    """

    def __init__(self, points: int, factor: int) -> None:
        self.points, self.factor = points, factor
        super().__init__(points, factor)

    def told(self, *, real: bool) -> str:
        """Why it is left: what products would cost; ``real``: of real numbers, or to real ones."""
        terms = min(self.points, self.factor + self.points // self.factor)
        times = (2 if real else 8) * self.points * terms / of_fft(self.points, real=real)
        known = "is prime" if self.factor == 1 else f"is {self.factor} times {self.points // self.factor} at best"
        return (
            f"its transform has {self.points} points, which {known}: products with constant matrices would take"
            f" {float(f'{times:.2g}'):.0f} times the arithmetic of an FFT"
        )


@dataclass(frozen=True)
class Exponentials:
    """The matrix ``scale * exp(sign 2 pi i row column / points)``.

    Attributes:
        rows: How many rows.
        columns: How many columns.
        points: Of the transform.
        sign: -1 of a transform forward, 1 of its inverse.
        scale: What every element is multiplied with.
        halved: Whether the rows stand for the first half of a spectrum, whose other half is its conjugate: all but the
            first and that of the highest frequency, if there is one, count twice, and of these the real part alone.
    """

    rows: int
    columns: int
    points: int
    sign: int
    scale: float = 1.0
    halved: bool = False

    def tables(self, dtype: torch.dtype) -> Pair:
        """The real and the imaginary parts, computed in float64 of exponents below the period."""
        product = torch.outer(torch.arange(self.rows), torch.arange(self.columns)) % self.points
        angle = product.to(torch.float64) * (2 * math.pi / self.points)
        real, imag = (part.mul(self.scale) for part in (angle.cos(), angle.sin() * self.sign))
        if self.halved:
            single = torch.arange(self.rows) * 2 % self.points == 0
            weights = torch.where(single, 1.0, 2.0).to(torch.float64)[:, None]
            real, imag = real * weights, torch.where(single[:, None], 0.0, imag * weights)
        # A sine of pi is 1e-16 in float64, and 0.
        return Pair(*(torch.where(part.abs() < 1e-15 * self.scale, 0.0, part).to(dtype) for part in (real, imag)))


def computed_tables(
    rows: Any,
    columns: Any,
    points: Any,
    sign: int,
    normalization: int,
    *,
    halved: bool,
    dtype: torch.dtype,
    device: torch.device,
) -> Pair:
    """The matrix of ``Exponentials`` for a length that the input decides, by ops of a graph.

    Integers stay below the square of ``MOST_TERMS``; an angle is below one turn, and exact to the last place or two.
    """
    length = torch.full((), points, dtype=torch.int64, device=device)
    row = torch.arange(rows, device=device)[:, None]
    product = torch.remainder(row * torch.arange(columns, device=device), length)
    angle = product.to(dtype) / length.to(dtype) * (2 * math.pi)
    scale = {0: None, 1: length.to(dtype).rsqrt(), 2: length.to(dtype).reciprocal()}[normalization]
    real, imag = angle.cos(), angle.sin() * sign
    if halved:
        single = torch.remainder(row * 2, length) == 0
        real, imag = torch.where(single, real, real * 2), torch.where(single, 0.0, imag * 2)
    return Pair(real, imag) if scale is None else Pair(real * scale, imag * scale)


@lru_cache(maxsize=1024)
def factors(points: int) -> tuple[int, ...]:
    """Of how many points each product is: one number, or two whose product is ``points``.

    Raises:
        TooLongError: Neither is short enough.
    """
    if points <= MOST_TERMS:
        return (points,)
    less = next(each for each in range(math.isqrt(points), 0, -1) if points % each == 0)
    if less + points // less > MOST_TERMS:
        raise TooLongError(points, less)
    return less, points // less


def arithmetic(points: int, *, real: bool) -> int:
    """Multiplications and additions of one transform of ``points`` points; ``real``: of real ones, or to real ones."""
    split = factors(points)
    half = points // 2 + 1
    if len(split) == 1:
        return 4 * points * half if real else 8 * points * points
    a, b = split
    columns = -(-half // a)
    if not real:
        return 8 * points * (a + b) + 6 * points
    return 4 * points * a + 6 * points + 8 * a * b * columns


def of_fft(points: int, *, real: bool) -> int:
    """About as many of an FFT: 5 n log2 n, half as many of real points."""
    return round((2.5 if real else 5) * points * max(1.0, math.log2(max(points, 2))))
