"""Exact sets of integers inside a range that may be open: stretches, each with a pattern over residues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

import numpy as np

from trtdiag.symbolic import patterns
from trtdiag.symbolic.describe import describe
from trtdiag.symbolic.patterns import ALL, Mask
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.stretch import Stretch, masks, merged, split, tidy

MOST_STRETCHES = 1 << 14


class ValueSet:
    """An exact set of integers inside ``range``; sets with the same range and members are equal.

    Attributes:
        range: The range it was made for; ``complement`` and ``is_full`` refer to it.
        stretches: Its parts in order, disjoint, each with at least one member.
    """

    __slots__ = ("range", "stretches")

    def __init__(self, range_: Range, stretches: Iterable[Stretch]) -> None:
        self.range = range_
        clipped = [part for part in (stretch.clipped(range_) for stretch in stretches) if part is not None]
        self.stretches: tuple[Stretch, ...] = tuple(merged([short for part in clipped for short in tidy(part)]))

    @classmethod
    def full(cls, range_: Range) -> ValueSet:
        """All of ``range_``."""
        return cls(range_, [] if range_.empty else [Stretch(range_.min, range_.max, ALL)])

    @classmethod
    def nothing(cls, range_: Range) -> ValueSet:
        """No value."""
        return cls(range_, [])

    @classmethod
    def from_mask(cls, low: int, mask: Mask, range_: Range | None = None) -> ValueSet:
        """The values ``low + i`` where ``mask[i]``; periods in it are found."""
        return cls(range_ or Range(low, low + len(mask) - 1), split(low, np.asarray(mask, dtype=bool)))

    @classmethod
    def residues(cls, period: int, residues: Iterable[int], range_: Range) -> ValueSet:
        """The values ``v`` of ``range_`` with ``v % period`` in ``residues``."""
        mask = np.zeros(period, dtype=bool)
        mask[[residue % period for residue in residues]] = True
        return cls(range_, [Stretch(range_.min, range_.max, mask)])

    def __contains__(self, value: int) -> bool:
        return any(
            (part.low is None or part.low <= value) and (part.high is None or value <= part.high)
            for part in self.stretches
            if patterns.at(part.mask, value)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValueSet):
            return NotImplemented
        return self.range == other.range and self.same_members(other)

    def __hash__(self) -> int:
        return hash((self.range, self.count, self.min, self.max))

    def __repr__(self) -> str:
        return f"ValueSet({self.describe('v')}; of {self.range})"

    def same_members(self, other: ValueSet) -> bool:
        """Whether both have the same members, whatever their ranges."""
        if (self.count, self.min, self.max) != (other.count, other.min, other.max):
            return False
        return not _combined(self, other, lambda a, b: a ^ b, Range()).stretches

    @property
    def count(self) -> int | None:
        """How many members; ``None`` when infinite."""
        counts = [part.count for part in self.stretches]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def is_empty(self) -> bool:
        """Whether there is no member."""
        return not self.stretches

    @property
    def is_full(self) -> bool:
        """Whether every value of the range is a member."""
        return self.complement().is_empty

    @property
    def min(self) -> int | None:
        """The least member; ``None`` when there is none or no end."""
        first = self.stretches[0].low if self.stretches else None
        return None if first is None else self.at_least(first)

    @property
    def max(self) -> int | None:
        """The greatest member; ``None`` when there is none or no end."""
        last = self.stretches[-1].high if self.stretches else None
        return None if last is None else self.at_most(last)

    @property
    def single(self) -> int | None:
        """The only member, where there is exactly one."""
        return self.min if self.count == 1 else None

    def at_most(self, value: int, step: int = 1) -> int | None:
        """The greatest member not above ``value``, of those that differ from it by multiples of ``step``."""
        for part in reversed(self.stretches):
            found = part.at_most(value, step) if part.low is None or part.low <= value else None
            if found is not None:
                return found
        return None

    def at_least(self, value: int, step: int = 1) -> int | None:
        """The least member not below ``value``, of those that differ from it by multiples of ``step``."""
        for part in self.stretches:
            found = part.at_least(value, step) if part.high is None or part.high >= value else None
            if found is not None:
                return found
        return None

    def members(self, limit: int) -> Iterator[int]:
        """At most ``limit`` members in order, from the least on (from 0 on where there is no least)."""
        least = self.min if self.min is not None else 0
        return islice(chain.from_iterable(part.from_on(least) for part in self.stretches), max(limit, 0))

    def intersect(self, other: ValueSet) -> ValueSet:
        """The members of both, inside both ranges."""
        return _combined(self, other, lambda a, b: a & b, self.range.intersect(other.range))

    def union(self, other: ValueSet) -> ValueSet:
        """The members of either; the range spans both."""
        lows, highs = (self.range.min, other.range.min), (self.range.max, other.range.max)
        low = None if lows[0] is None or lows[1] is None else min(lows[0], lows[1])
        high = None if highs[0] is None or highs[1] is None else max(highs[0], highs[1])
        return _combined(self, other, lambda a, b: a | b, Range(low, high))

    def complement(self) -> ValueSet:
        """The values of the range that are no members."""
        return _combined(self, ValueSet.full(self.range), lambda a, b: ~a & b, self.range)

    def within(self, range_: Range) -> ValueSet:
        """The members inside ``range_``, which becomes the range."""
        return ValueSet(range_, self.stretches)

    def mapped(self, factor: int, offset: int, range_: Range) -> ValueSet:
        """The values ``factor*v + offset`` of all members ``v``, as far as they are in ``range_``; factor not 0."""
        parts = []
        for part in self.stretches:
            ends = Range(part.low, part.high).scaled(factor, offset)
            mask = np.zeros(len(part.mask) * abs(factor), dtype=bool)
            mask[(np.flatnonzero(part.mask) * factor + offset) % len(mask)] = True
            parts.append(Stretch(ends.min, ends.max, mask))
        return ValueSet(range_, parts)

    def describe(self, name: str) -> str:
        """The set in words, as short as it goes: ``h % 8 == 0``, ``17..4095 with h % 16 in {1..12, 15}``."""
        return describe(self, name)


def _combined(left: ValueSet, right: ValueSet, join: Callable[[Mask, Mask], Mask], range_: Range) -> ValueSet:
    """Joins two sets pattern by pattern between all their ends."""
    if range_.empty:
        return ValueSet(range_, [])
    ends = (*left.stretches, *right.stretches)
    cuts = {part.low for part in ends if part.low is not None} | {
        part.high + 1 for part in ends if part.high is not None
    }
    if len(cuts) > MOST_STRETCHES:
        raise patterns.PatternError(f"the set falls into {len(cuts)} stretches")
    pieces = range_.cut(cuts)
    parts: list[Stretch] = []
    pairs = zip(masks(left.stretches, pieces), masks(right.stretches, pieces), strict=True)
    for piece, both in zip(pieces, pairs, strict=True):
        parts.append(Stretch(piece.min, piece.max, join(*patterns.align(*both, piece.min, piece.max))))
    return ValueSet(range_, parts)
