"""Bytes of tensors over the declared ranges."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.graph.values import TensorValue
from trtdiag.partition.facts import Bytes
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import BoundsCache, Expr, Range, build, evaluate, free_symbols


class ByteCounts:
    """Bytes of tensors at the ends of the ranges and at the usual sizes; each shape is bounded once."""

    def __init__(self, symbols: Mapping[str, DimProfile]) -> None:
        self._usual = {name: sizes.opt for name, sizes in symbols.items()}
        self._bounds = BoundsCache({name: Range(sizes.min, sizes.max) for name, sizes in symbols.items()})
        # By the identity of the dims, which are kept beside: the reader of metadata makes equal shapes one object.
        self._known: dict[tuple[int, int], tuple[tuple[Expr, ...], Bytes]] = {}

    def of(self, value: TensorValue | None) -> Bytes:
        """Return the bytes of a tensor: exact or a bound from outside where its size is not monotone."""
        if value is None:
            return Bytes(None, None, None)
        key = id(value.dims), value.element_bytes
        if key not in self._known:
            self._known[key] = value.dims, self._count(value)
        return self._known[key][1]

    def _count(self, value: TensorValue) -> Bytes:
        volume = build.mul(*value.dims)
        if not free_symbols(volume) <= self._usual.keys():
            return Bytes(None, None, None)
        bounds = self._bounds.of(volume).range
        counts = (None if bounds.min is None else max(bounds.min, 0), _at(volume, self._usual), bounds.max)
        return Bytes(*(None if count is None else count * value.element_bytes for count in counts))

    def weight(self, value: TensorValue | None) -> int:
        """Return the bytes to compare tensors by: at the usual sizes; a symbol without sizes counts as one."""
        if value is None:
            return 1
        usual = self.of(value).opt
        if usual is None:
            volume = build.mul(*value.dims)
            values = {**dict.fromkeys(free_symbols(volume), 1), **self._usual}
            elements = _at(volume, values)
            usual = value.element_bytes * (1 if elements is None else elements)
        return max(usual, 1)


def _at(volume: Expr, values: Mapping[str, int]) -> int | None:
    """Return the number of elements; ``None`` where there is none: ``h // (h // 3)`` has no value at one."""
    try:
        return int(evaluate(volume, values))
    except ZeroDivisionError:
        return None
