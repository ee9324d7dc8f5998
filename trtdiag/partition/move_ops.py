"""Moves ops between segments so that less crosses, without more segments.

The earliest level is one of several that an op may have: a mask made at the start and read at the end, or a skip
connection's convolution, can as well run with its reader.  Two passes over the ops look at each one alone; moves that
pay only together are found where every step is no worse than the one before, which is so for chains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from trtdiag.graph.quantizers import is_dequantizer
from trtdiag.graph.values import TensorValue
from trtdiag.partition.levels import earliest_level, latest_level
from trtdiag.partition.op_graph import OpGraph

_FEW_LEVELS = 8

Weigh = Callable[[TensorValue | None], int]
"""Gives the bytes to compare tensors by; asked only about those that a move would change."""


def placed(graph: OpGraph, supported: Sequence[bool], levels: Sequence[int], weigh: Weigh, least_ops: int) -> list[int]:
    """Return levels with no more bytes over boundaries than ``levels`` have, and the same number of segments.

    Args:
        graph: The ops.
        supported: Whether an op is in a segment.
        levels: An allowed level for each op; those of unsupported ops are computed again.
        weigh: Gives the bytes of a tensor.
        least_ops: No move leaves a segment with fewer ops that compute.

    Cost: linear in edges.
    """
    if max(levels, default=0) <= 1:
        return list(levels)  # of one segment each op has one place
    placing = _Placing(graph, supported, list(levels), weigh, least_ops)
    placing.later()
    placing.earlier()
    return placing.levels


@dataclass
class _Placing:
    graph: OpGraph
    supported: Sequence[bool]
    levels: list[int]
    weigh: Weigh
    least_ops: int

    def __post_init__(self) -> None:
        graph, supported = self.graph, self.supported
        self._weight = cache(lambda place: self.weigh(self.graph.tensors[place].value))
        self._last = max((level for level, inside in zip(self.levels, supported, strict=True) if inside), default=0)
        self._work = [0] * (self._last + 1)
        self._yields: list[list[int]] = [[] for _ in graph.ops]
        # For each tensor, how many of its readers are at each level; PyTorch reads at level 0.
        self._read_at: list[dict[int, int]] = []
        for index, inside in enumerate(supported):
            self._work[self.levels[index]] += inside and graph.ops[index].work
        for place, tensor in enumerate(graph.tensors):
            if tensor.producer >= 0:
                self._yields[tensor.producer].append(place)
            counts: dict[int, int] = {0: 1} if tensor.is_output else {}
            for reader in tensor.readers:
                at = self.levels[reader] if supported[reader] else 0
                counts[at] = counts.get(at, 0) + 1
            self._read_at.append(counts)

    def later(self) -> None:
        """Move ops towards their readers, last op first; of equally good levels the latest."""
        for index in range(len(self.levels) - 1, -1, -1):
            latest = latest_level(index, self.graph.after, self.supported, self.levels, self._last)
            if not self.supported[index]:
                # Only for the ops before it; the second pass gives it its earliest level again.
                self.levels[index] = latest
            elif latest > self.levels[index]:
                self._move(index, self.levels[index], latest, late=True)

    def earlier(self) -> None:
        """Move ops back towards what they read where that is better, first op first."""
        for index, inside in enumerate(self.supported):
            earliest = earliest_level(index, self.graph.before, self.supported, self.levels)
            if not inside:
                self.levels[index] = earliest
            elif earliest < self.levels[index]:
                self._move(index, earliest, self.levels[index], late=False)

    def _move(self, index: int, low: int, high: int, *, late: bool) -> None:
        own = self.levels[index]
        op = self.graph.ops[index]
        if op.work and self._work[own] <= self.least_ops:
            return
        if self._is_fused(index):
            return
        # Elsewhere than at a neighbour's level an op only brings more traffic.
        near = {low, high, own}
        for place in self.graph.ops[index].reads:
            near.update(self._levels_of(place, low, high))
            producer = self.graph.tensors[place].producer
            if producer >= 0 and low <= self.levels[producer] <= high:
                near.add(self.levels[producer])
        for place in self._yields[index]:
            near.update(self._levels_of(place, low, high))
        self._count(index, own, -1)
        best = min(sorted(near), key=lambda level: (self._cost(index, level), level != own and not late, -level))
        self._count(index, best, 1)
        self._work[own] -= self.graph.ops[index].work
        self._work[best] += self.graph.ops[index].work
        self.levels[index] = best

    def _is_fused(self, index: int) -> bool:
        """Return whether an op dequantizes a tensor, or reads one that is: apart they are no layer of few bits."""
        op = self.graph.ops[index]
        producers = [self.graph.tensors[place].producer for place in op.reads]
        around = [op, *(self.graph.ops[producer] for producer in producers if producer >= 0)]
        return any(other.reads and is_dequantizer(other.target) for other in around)

    def _levels_of(self, place: int, low: int, high: int) -> list[int]:
        """Return the levels that a tensor is read at; of one read all over none, which keeps the cost linear."""
        counts = self._read_at[place]
        return [level for level in counts if low <= level <= high] if len(counts) <= _FEW_LEVELS else []

    def _count(self, index: int, level: int, change: int) -> None:
        for place in self.graph.ops[index].reads:
            counts = self._read_at[place]
            left = counts.get(level, 0) + change
            if left:
                counts[level] = left
            else:
                del counts[level]

    def _cost(self, index: int, level: int) -> int:
        """Return the bytes that cross because this op is at ``level``; its own reads are not in the counts."""
        total = 0
        for place in self._yields[index]:
            elsewhere = len(self._read_at[place]) - (level in self._read_at[place])
            inside = elsewhere - (0 in self._read_at[place])
            # Once out, and once into each segment that reads it.
            total += self._weight(place) * ((elsewhere > 0) + inside)
        for place in self.graph.ops[index].reads:
            counts = self._read_at[place]
            producer = self.graph.tensors[place].producer
            made_at = self.levels[producer] if producer >= 0 and self.supported[producer] else 0
            if level != made_at and level not in counts:
                leaves = made_at > 0 and not any(other != made_at for other in counts)
                total += self._weight(place) * (1 + leaves)
        return total
