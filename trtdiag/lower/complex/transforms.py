"""Fourier transforms of fixed lengths, dim by dim, as products with the matrices of ``exponentials.py``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trtdiag.lower.complex.arithmetic import times
from trtdiag.lower.complex.exponentials import Exponentials, TooLongError, arithmetic, factors, of_fft
from trtdiag.lower.complex.pair import Call, Pair, on_pairs
from trtdiag.lower.complex.products import product, real_product
from trtdiag.lower.template import UntraceableError

FOURIER = frozenset({"aten::_fft_r2c", "aten::_fft_c2r", "aten::_fft_c2c"})


@dataclass(frozen=True)
class Along:
    """A transform along one dim.

    Attributes:
        dim: The dim.
        points: Its length.
        kind: ``c2c``, ``r2c`` or ``c2r``.
        sign: As in ``Exponentials``.
        scale: The factor of its share in the normalization.
        halved: Whether a spectrum on the real side is half of one.
    """

    dim: int
    points: int
    kind: str
    sign: int
    scale: float
    halved: bool = True

    @property
    def frequencies(self) -> int:
        """How many of them there are on the complex side of a real transform."""
        return self.points // 2 + 1 if self.halved else self.points

    def tables(self) -> tuple[Exponentials, ...]:
        """The matrices, in the order in which they are used."""
        n, sign, split = self.points, self.sign, factors(self.points)
        if len(split) == 1:
            rows = self.frequencies if self.kind == "c2r" else n
            columns = self.frequencies if self.kind == "r2c" else n
            return (Exponentials(rows, columns, n, sign, self.scale, halved=self.kind == "c2r"),)
        a, b = split
        used = b if self.kind == "c2c" else -(-self.frequencies // a)
        if self.kind == "c2r":
            weights = Exponentials(self.frequencies, 1, n, sign, self.scale, halved=True)
            return weights, Exponentials(b, used, b, sign), Exponentials(b, a, n, sign), Exponentials(a, a, a, sign)
        return Exponentials(a, a, a, sign), Exponentials(a, b, n, sign), Exponentials(b, used, b, sign, self.scale)


@dataclass(frozen=True)
class Transform:
    """One call of ``_fft_r2c``, ``_fft_c2r`` or ``_fft_c2c``: its dims in the order in which they are done."""

    dims: tuple[Along, ...]

    @property
    def points(self) -> tuple[int, ...]:
        """Along each dim, in the program's order of dims."""
        return tuple(each.points for each in sorted(self.dims, key=lambda each: each.dim))

    def costs(self) -> tuple[int, int]:
        """Multiplications and additions of one transform over all dims: as products, and about those of an FFT."""
        total = math.prod(self.points)
        rows = [total // each.points for each in self.dims]
        as_products = sum(
            count * arithmetic(each.points, real=each.kind != "c2c")
            for each, count in zip(self.dims, rows, strict=True)
        )
        return as_products, of_fft(total, real=any(each.kind != "c2c" for each in self.dims))


def transform_of(name: str, given: Mapping[str, Any], val: Tensor) -> Transform:
    """What a call is to do.

    Args:
        name: The op, by ``schema_name``.
        given: Its arguments by name.
        val: The value of its input.

    Raises:
        UntraceableError: It is left to an FFT of PyTorch, and why.
    """
    dims: list[int] = [dim % val.dim() for dim in given["dim"]]
    sizes: list[Any] = [val.shape[dim] for dim in dims]
    if name == "aten::_fft_c2r":
        sizes[-1] = given["last_dim_size"]
    dynamic = next((dim for dim, size in zip(dims, sizes, strict=True) if not isinstance(size, int)), None)
    if dynamic is not None:
        raise UntraceableError(
            f"it transforms dim {dynamic}, whose length depends on the input: no constant matrix does that"
        )
    if val.dtype in (torch.float16, torch.complex32):
        raise UntraceableError("it transforms half precision, whose sums lose the small frequencies")
    if not dims or not all(sizes):
        raise UntraceableError("it transforms nothing")
    try:
        return Transform(tuple(_along(name, given, dims, sizes, val)))
    except TooLongError as why:
        real = name != "aten::_fft_c2c" and why.points == sizes[-1]
        raise UntraceableError(why.told(real=real)) from None


def _along(name: str, given: Mapping[str, Any], dims: list[int], sizes: list[int], val: Tensor) -> Iterator[Along]:
    scales = [{0: 1.0, 1: size**-0.5, 2: 1.0 / size}[given["normalization"]] for size in sizes]
    others = zip(dims[:-1], sizes[:-1], scales[:-1], strict=True)
    for points in sizes:
        factors(points)
    if name == "aten::_fft_c2c":
        sign = -1 if given["forward"] else 1
        yield from (Along(*each[:2], "c2c", sign, each[2]) for each in zip(dims, sizes, scales, strict=True))
    elif name == "aten::_fft_r2c":
        yield Along(dims[-1], sizes[-1], "r2c", -1, scales[-1], halved=given["onesided"])
        yield from (Along(dim, size, "c2c", -1, scale) for dim, size, scale in others)
    else:
        last = Along(dims[-1], sizes[-1], "c2r", 1, scales[-1])
        if val.shape[dims[-1]] != last.frequencies:
            raise UntraceableError("it takes another number of frequencies than its result has")
        yield from (Along(dim, size, "c2c", 1, scale) for dim, size, scale in others)
        yield last


@on_pairs("_fft_r2c", "_fft_c2r", "_fft_c2c")
def fourier(call: Call, **given: Any) -> Any:
    """Products with constant matrices, dim by dim, where the lengths are fixed and such products short enough.

    ``call.tables`` are the matrices of each dim in turn.
    """
    x = given["self"]
    part = x.real if isinstance(x, Pair) else x
    tables = iter(call.tables)
    for along in transform_of(call.op._schema.name, given, part).dims:
        mine = [next(tables) for _ in along.tables()]
        x = _one_product(x, along, mine[0]) if len(mine) == 1 else _two_products(x, along, mine)
    return x


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
