"""Columns of an output: slices along a fixed dim that have magnitudes of their own, as boxes and scores in one tensor.

A tolerance of the whole tensor's magnitude would let a score be off by what a box of hundreds of pixels may be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import log, pi, prod, sqrt
from typing import TypeAlias

import torch
from torch.export import ExportedProgram

from trtdiag.graph.quantizers import rounds_tensors
from trtdiag.verification.facts import Tolerance

APART = 10.0
"""How many times the magnitude of the least column that of the greatest is at least, for columns to be told apart."""
LEAST_SHARE = 1e-3
"""Of the whole tensor's magnitude, the least that counts for a column's.

Own choice: boxes have up to a thousand pixels beside scores up to 1.  What is less comes out of sums of greater numbers
that cancel, whose rounding is as large as theirs.
"""
CHANCE = 1e-3
"""Own choice: how often columns that are alike may be told apart because all elements of one are next to 0."""
MOST_AT_ONCE = 1 << 17
"""Elements of a part: 1 MiB of float64, so that what is computed of it stays in a processor's caches."""

At: TypeAlias = tuple[slice, ...]
"""Which part of a tensor, a slice for each dim."""


def parts(shape: Sequence[int]) -> Iterator[At]:
    """The parts of a tensor of this shape, in order: together all of it, each of few elements."""
    if prod(shape) <= MOST_AT_ONCE:
        yield tuple(slice(0, size) for size in shape)
        return
    first, *rest = shape
    each = prod(rest)
    rows = max(1, MOST_AT_ONCE // each)
    for begin in range(0, first, rows):
        here = slice(begin, min(first, begin + rows))
        yield from ((here, *others) for others in (parts(rest) if each > MOST_AT_ONCE else [_whole(rest)]))


def _whole(shape: Sequence[int]) -> At:
    return tuple(slice(0, size) for size in shape)


class Largest:
    """The largest of values of 0 and more that come in parts: of all, and of each slice along some dims.

    Args:
        shape: Of the tensor that they are of.
        fixed: Its dims along which it may have columns; the first, which counts rows, is none of them.
    """

    def __init__(self, shape: Sequence[int], fixed: Collection[int]) -> None:
        dims = [dim for dim in fixed if 0 < dim < len(shape) and shape[dim] > 1]
        self._along = {dim: torch.zeros(shape[dim], dtype=torch.float64) for dim in dims}
        self._elements = prod(shape)
        self._whole = torch.zeros(1, dtype=torch.float64)

    @property
    def dims(self) -> Collection[int]:
        """Those along which it knows each slice."""
        return self._along.keys()

    def apart(self, dim: int) -> float:
        """How many times the least slice's magnitude the greatest's is where they are not alike.

        Of normal numbers, all of one deviation, the largest of ``each`` in a slice is seldom below ``least`` of it.
        """
        count = len(self._along[dim])
        each = self._elements / count
        least: float = sqrt(pi / 2) * (CHANCE / count) ** (1 / each)
        return max(APART, sqrt(2 * log(self._elements)) / least)

    def add(self, values: torch.Tensor, at: At) -> None:
        """Look at a part."""
        for dim, known in self._along.items():
            others = [other for other in range(values.dim()) if other != dim]
            known[at[dim]] = torch.maximum(known[at[dim]], values.amax(others))
        self._whole = torch.maximum(self._whole, values.amax())

    def along(self, dim: int | None) -> torch.Tensor:
        """That of each slice along a dim; of all, shape (1,), where it is ``None``."""
        return self._whole if dim is None else self._along[dim]


def largest_of(shape: Sequence[int], fixed: Collection[int], values: Callable[[At], torch.Tensor]) -> Largest:
    """The largest of values that are computed part by part; ``shape`` and ``fixed`` as for ``Largest``."""
    found = Largest(shape, fixed)
    for at in parts(shape):
        found.add(values(at), at)
    return found


@dataclass(frozen=True)
class Columns:
    """The columns of one output.

    Attributes:
        dim: Along which dim they are; ``None`` where the whole tensor is one.
        sizes: The magnitude of each, shape (columns,).
    """

    dim: int | None
    sizes: torch.Tensor

    def allowed(self, tolerance: Tolerance) -> torch.Tensor:
        """How far each may be off, shape (columns,)."""
        return tolerance.absolute + tolerance.relative * self.sizes

    def name(self, index: int, rank: int) -> str:
        """``[:, 4]`` for the one of that number; nothing where the whole tensor is one."""
        if self.dim is None:
            return ""
        return f"[{', '.join(str(index) if dim == self.dim else ':' for dim in range(rank))}]"


def columns_of(magnitudes: Largest) -> Columns:
    """The columns of an output along the dim whose slices differ most in magnitude.

    Args:
        magnitudes: Of its elements, at least one, 0 where they are not finite, and along dims that have the same size
            in every call.
    """
    whole = magnitudes.along(None)
    best, most = Columns(None, whole), 0.0
    for dim in magnitudes.dims:
        sizes = magnitudes.along(dim).clamp(min=float(whole) * LEAST_SHARE)
        spread = float(sizes.max() / sizes.min()) if float(whole) else 1.0
        if spread >= magnitudes.apart(dim) and spread > most:
            best, most = Columns(dim, sizes), spread
    return best


def fixed_dims(exported: ExportedProgram) -> list[tuple[int, ...]]:
    """Of each output, the dims that have the same size in every call, but for the first.

    A program with quantizers has none: a step of one is as large in all columns, and an element next to the middle
    between two steps may fall to either side.
    """
    if any(map(rounds_tensors, exported.graph.nodes)):
        return [()] * len(exported.graph_signature.user_outputs)
    values = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    found = []
    for output in exported.graph_signature.user_outputs:
        value = values.get(output) if isinstance(output, str) else None
        shape = value.shape if isinstance(value, torch.Tensor) else ()
        found.append(tuple(dim for dim, size in enumerate(shape) if dim and isinstance(size, int)))
    return found
