"""All tuples of values of a few symbols, as arrays that broadcast against one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from trtdiag.symbolic.checked_arrays import Array
from trtdiag.symbolic.conditions import all_of
from trtdiag.symbolic.evaluate_array import all_values, holds_array
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.patterns import Mask
from trtdiag.symbolic.ranges import Range

MOST_TUPLES = 1 << 22


def tuple_count(names: Sequence[str], box: Mapping[str, Range]) -> int | None:
    """How many tuples there are; ``None`` when infinitely many."""
    counts = [box.get(name, Range()).count for name in names]
    known = [count for count in counts if count is not None]
    return 0 if 0 in known else prod(known) if len(known) == len(counts) else None


@dataclass(frozen=True, slots=True)
class Grid:
    """All tuples of ``names`` in a bounded box, in lexicographic order; one axis for each name."""

    names: tuple[str, ...]
    axes: tuple[Array, ...]

    @classmethod
    def of(cls, names: Sequence[str], box: Mapping[str, Range]) -> Grid:
        """The grid of ``names`` over their ranges, which must be bounded."""
        return cls(tuple(names), tuple(all_values(box[name]) for name in names))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each name has."""
        return tuple(len(axis) for axis in self.axes)

    def arrays(self) -> dict[str, Any]:
        """The values of each name, shaped to broadcast."""
        count = len(self.axes)
        return {
            name: axis.reshape([-1 if i == index else 1 for i in range(count)])
            for index, (name, axis) in enumerate(zip(self.names, self.axes, strict=True))
        }

    def columns(self) -> dict[str, Any]:
        """The values of each name, one for each tuple."""
        return {name: np.broadcast_to(axis, self.shape).ravel() for name, axis in self.arrays().items()}

    def holds(self, conditions: Sequence[Condition]) -> Mask:
        """At which tuples all ``conditions`` hold."""
        return np.broadcast_to(holds_array(all_of(conditions), self.arrays()), self.shape)

    def smallest(self, mask: Mask) -> dict[str, int] | None:
        """The tuple of ``mask`` with the least maximum, the first of these in lexicographic order."""
        return self._first(mask, np.maximum.reduce)

    def nearest(self, mask: Mask, point: Mapping[str, int]) -> dict[str, int] | None:
        """The tuple of ``mask`` with the least sum of distances to ``point``; of equal ones the first (below)."""
        ends = [point[name] for name in self.names]
        return self._first(mask, lambda found: sum(np.abs(one - end) for one, end in zip(found, ends, strict=True)))

    def _first(self, mask: Mask, measure: Callable[[list[Array]], Any]) -> dict[str, int] | None:
        """The first tuple of ``mask`` of the least measure, which is computed of the values of each name."""
        places = np.nonzero(mask)
        if len(places[0]) == 0:
            return None
        columns = [axis[place] for axis, place in zip(self.axes, places, strict=True)]
        best = int(np.argmin(np.asarray(measure(columns))))
        return {name: int(column[best]) for name, column in zip(self.names, columns, strict=True)}
