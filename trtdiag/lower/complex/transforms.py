"""Fourier transforms, dim by dim, as products with the matrices of ``exponentials.py``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trtdiag.lower.complex.arithmetic import times
from trtdiag.lower.complex.exponentials import (
    MOST_TERMS,
    Exponentials,
    TooLongError,
    arithmetic,
    computed_tables,
    factors,
    of_fft,
)
from trtdiag.lower.complex.pair import Call, Pair, on_pairs
from trtdiag.lower.complex.products import product, real_product
from trtdiag.lower.template import UntraceableError, written_size

FOURIER = frozenset({"aten::_fft_r2c", "aten::_fft_c2r", "aten::_fft_c2c"})


@dataclass(frozen=True)
class Along:
    """A transform along one dim.

    Attributes:
        dim: The dim.
        points: Its length; an expression of torch where the input decides it.
        most: The greatest that it can be.
        kind: ``c2c``, ``r2c`` or ``c2r``.
        sign: As in ``Exponentials``.
        normalization: As the ops have it: 1 divides by the root of the length, 2 by the length.
        halved: Whether a spectrum on the real side is half of one.
    """

    dim: int
    points: Any
    most: int
    kind: str
    sign: int
    normalization: int
    halved: bool = True

    @property
    def is_fixed(self) -> bool:
        """Whether its matrices are constants."""
        return isinstance(self.points, int)

    @property
    def frequencies(self) -> Any:
        """How many of them there are on the complex side of a real transform."""
        return self.points // 2 + 1 if self.halved else self.points

    def tables(self) -> tuple[Exponentials, ...]:
        """The constant matrices, in the order in which they are used; none where the input decides the length."""
        if not self.is_fixed:
            return ()
        n, sign, split = self.points, self.sign, factors(self.points)
        scale = {0: 1.0, 1: n**-0.5, 2: 1 / n}[self.normalization]
        if len(split) == 1:
            rows = self.frequencies if self.kind == "c2r" else n
            columns = self.frequencies if self.kind == "r2c" else n
            return (Exponentials(rows, columns, n, sign, scale, halved=self.kind == "c2r"),)
        a, b = split
        used = b if self.kind == "c2c" else -(-self.frequencies // a)
        if self.kind == "c2r":
            weights = Exponentials(self.frequencies, 1, n, sign, scale, halved=True)
            return weights, Exponentials(b, used, b, sign), Exponentials(b, a, n, sign), Exponentials(a, a, a, sign)
        return Exponentials(a, a, a, sign), Exponentials(a, b, n, sign), Exponentials(b, used, b, sign, scale)


@dataclass(frozen=True)
class Transform:
    """One call of ``_fft_r2c``, ``_fft_c2r`` or ``_fft_c2c``: its dims in the order in which they are done."""

    dims: tuple[Along, ...]

    @property
    def points(self) -> tuple[int, ...]:
        """At most along each dim, in the program's order of dims."""
        return tuple(each.most for each in sorted(self.dims, key=lambda each: each.dim))

    def costs(self) -> tuple[int, int]:
        """Multiplications and additions of one transform over all dims: as products, and about those of an FFT.

        At the greatest lengths.  The other dims of a real transform are done for half of the frequencies.
        """
        total, as_products = math.prod(self.points), 0
        real = next((each for each in self.dims if each.kind != "c2c"), None)
        for each in self.dims:
            rows = total // each.most
            if real is not None and each is not real and real.halved:
                rows = rows // real.most * (real.most // 2 + 1)
            as_products += rows * arithmetic(each.most, real=each is real)
        return as_products, of_fft(total, real=real is not None)


def transform_of(
    name: str,
    given: Mapping[str, Any],
    val: Tensor,
    greatest: Callable[[torch.SymInt], int | None] = lambda _size: MOST_TERMS,
) -> Transform:
    """What a call is to do.

    Args:
        name: The op, by ``schema_name``.
        given: Its arguments by name.
        val: The value of its input.
        greatest: The greatest that a size can be, ``None`` where it has no end.

    Raises:
        UntraceableError: It is left to an FFT of PyTorch, and why.
    """
    dims: list[int] = [dim % val.dim() for dim in given["dim"]]
    sizes: list[Any] = [val.shape[dim] for dim in dims]
    if name == "aten::_fft_c2r":
        sizes[-1] = given["last_dim_size"]
    most = [
        size if isinstance(size, int) else _most(dim, greatest(size)) for dim, size in zip(dims, sizes, strict=True)
    ]
    if val.dtype in (torch.float16, torch.complex32):
        raise UntraceableError("it transforms half precision, whose sums lose the small frequencies")
    if not dims or not all(most):
        raise UntraceableError("it transforms nothing")
    try:
        for points in most:
            factors(points)
        return Transform(tuple(_along(name, given, list(zip(dims, sizes, most, strict=True)), val)))
    except TooLongError as why:
        real = name != "aten::_fft_c2c" and why.points == most[-1]
        raise UntraceableError(why.told(real=real)) from None


def _most(dim: int, greatest: int | None) -> int:
    if greatest is None or greatest > MOST_TERMS:
        end = "has no end" if greatest is None else f"may be {greatest}"
        raise UntraceableError(
            f"it transforms dim {dim}, whose length depends on the input and {end}: products are written for such a"
            f" length up to {MOST_TERMS}"
        )
    return greatest


def _along(name: str, given: Mapping[str, Any], dims: list[tuple[int, Any, int]], val: Tensor) -> Iterator[Along]:
    norm, last, others = given["normalization"], dims[-1], dims[:-1]
    if name == "aten::_fft_c2c":
        yield from (Along(*each, "c2c", -1 if given["forward"] else 1, norm) for each in dims)
    elif name == "aten::_fft_r2c":
        yield Along(*last, "r2c", -1, norm, halved=given["onesided"])
        yield from (Along(*each, "c2c", -1, norm) for each in others)
    else:
        real = Along(*last, "c2r", 1, norm)
        if written_size(val.shape[real.dim]) != written_size(real.frequencies):
            raise UntraceableError("it takes another number of frequencies than its result has")
        yield from (Along(*each, "c2c", 1, norm) for each in others)
        yield real


@on_pairs("_fft_r2c", "_fft_c2r", "_fft_c2c")
def fourier(call: Call, **given: Any) -> Any:
    """Products with matrices, dim by dim: constant ones where the length is fixed, else computed for it up to 512.

    ``call.tables`` are the matrices of each dim in turn.
    """
    x = given["self"]
    part = x.real if isinstance(x, Pair) else x
    tables = iter(call.tables)
    for along in transform_of(call.op._schema.name, given, part).dims:
        mine = [next(tables) for _ in along.tables()] or [_computed_table(along, call.dtype, part.device)]
        x = _one_product(x, along, mine[0]) if len(mine) == 1 else _two_products(x, along, mine)
    return x


def _computed_table(along: Along, dtype: torch.dtype, device: torch.device) -> Pair:
    rows = along.frequencies if along.kind == "c2r" else along.points
    columns = along.frequencies if along.kind == "r2c" else along.points
    halved = along.kind == "c2r"
    return computed_tables(
        rows, columns, along.points, along.sign, along.normalization, halved=halved, dtype=dtype, device=device
    )


def _one_product(x: Any, along: Along, table: Pair) -> Any:
    rank = (x.real if isinstance(x, Pair) else x).dim()
    if along.dim == rank - 1:
        return real_product(x, table) if along.kind == "c2r" else product(x, table)
    # From the left no dims change places; those behind are one while it lasts.
    turned = table if along.kind == "c2c" else Pair(table.real.mT, table.imag.mT)  # that of c2c is symmetric
    behind = (x.real if isinstance(x, Pair) else x).shape[along.dim + 1 :]
    wide = _each(x, lambda part: part.flatten(along.dim + 1)) if len(behind) > 1 else x
    made = real_product(turned, wide) if along.kind == "c2r" else product(turned, wide)
    return _each(made, lambda part: part.unflatten(-1, behind)) if len(behind) > 1 else made


def _two_products(x: Any, along: Along, tables: list[Pair]) -> Any:
    a, b = factors(along.points)
    x = _each(x, lambda part: part.movedim(along.dim, -1))
    if along.kind == "c2r":
        weights, outer, between, inner = tables
        x = _each(x, lambda part: part * weights.real.flatten())
        columns = -(-along.frequencies // a)
        missing = columns * a - along.frequencies
        if missing:
            x = _each(x, lambda part: torch.nn.functional.pad(part, (0, missing)))
        x = _each(x, lambda part: part.unflatten(-1, (columns, a)))
        made = real_product(times(product(outer, x), between), inner)
        return made.mT.flatten(-2).movedim(-1, along.dim)
    inner, between, outer = tables
    x = _each(x, lambda part: part.unflatten(-1, (a, b)))
    spectrum = product(times(product(inner, x), between), outer)
    wanted = along.points if along.kind == "c2c" else along.frequencies
    return _each(spectrum, lambda part: part.mT.flatten(-2).narrow(-1, 0, wanted).movedim(-1, along.dim))


def _each(x: Any, of: Any) -> Any:
    return Pair(of(x.real), of(x.imag)) if isinstance(x, Pair) else of(x)
