"""Tensors whose elements follow from their place."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.writer import Size, Writer
from trtdiag.network.layers.constant import Fill
from trtdiag.network.value import Value
from trtdiag.symbolic import as_expr


def index_grid(write: Writer, sizes: Sequence[Size], steps: Sequence[int]) -> Value:
    """At index ``(i, j, ...)`` the index ``i * steps[0] + j * steps[1] + ...``."""
    shape, inputs = write.attribute([as_expr(size) for size in sizes])
    return write.add(Fill(shape, write.index, 0, tuple(steps)), *inputs)
