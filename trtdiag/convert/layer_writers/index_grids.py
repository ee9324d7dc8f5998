"""Tensors whose elements follow from their place."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.writer import Size, Writer
from trtdiag.network.builder import Value
from trtdiag.network.layer import INPUT
from trtdiag.network.layers.constant import Fill
from trtdiag.symbolic import Num, as_expr


def index_grid(write: Writer, sizes: Sequence[Size], steps: Sequence[int]) -> Value:
    """At index ``(i, j, ...)`` the index ``i * steps[0] + j * steps[1] + ...``."""
    shape = [as_expr(size) for size in sizes]
    numbers = tuple(int(size.value) for size in shape if isinstance(size, Num))
    if len(numbers) == len(shape):
        return write.add(Fill(numbers, write.index, 0, tuple(steps)))
    return write.add(Fill(INPUT, write.index, 0, tuple(steps)), write.sizes.vector(shape))
