"""Stretches of whole numbers whose members repeat with a period, and how they are cut and joined."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np

from trtdiag.symbolic import patterns
from trtdiag.symbolic.patterns import ALL, Mask
from trtdiag.symbolic.ranges import Range


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """The values of ``low..high`` (``None``: open) in the pattern of ``mask``."""

    low: int | None
    high: int | None
    mask: Mask

    @property
    def count(self) -> int | None:
        """How many values; ``None`` when infinite."""
        if not self.mask.any():
            return 0
        if self.low is None or self.high is None:
            return None
        whole, rest = divmod(self.high - self.low + 1, len(self.mask))
        partial = int(patterns.stretch(self.mask, self.low, rest).sum()) if rest else 0
        return whole * int(self.mask.sum()) + partial

    def at_most(self, value: int, step: int = 1) -> int | None:
        """The greatest value not above ``value`` among those that differ from it by multiples of ``step``."""
        start = value if self.high is None or value <= self.high else self.high - (self.high - value) % step
        most = None if self.low is None else (start - self.low) // step + 1
        return self._search(start, -step, most)

    def at_least(self, value: int, step: int = 1) -> int | None:
        """The least value not below ``value`` among those that differ from it by multiples of ``step``."""
        start = value if self.low is None or value >= self.low else self.low + (value - self.low) % step
        most = None if self.high is None else (self.high - start) // step + 1
        return self._search(start, step, most)

    def _search(self, start: int, step: int, most: int | None) -> int | None:
        period = len(self.mask)
        classes = period // gcd(period, step)
        count = classes if most is None else min(most, classes)
        done, window = 0, 1 << 10  # the nearest is mostly near; a large mask is rarely searched to its end
        while done < count:
            steps = np.arange(done, min(done + window, count))
            hits = np.flatnonzero(self.mask[(start % period + (step % period) * steps) % period])
            if len(hits):
                return start + step * (done + int(hits[0]))
            done, window = done + window, window * 64
        return None

    def from_on(self, value: int) -> Iterator[int]:
        """The values that are not below ``value``, in order; without an end where there is none."""
        first = value if self.low is None else max(value, self.low)
        period, places = len(self.mask), np.flatnonzero(self.mask).tolist()
        for base in itertools.count(first - first % period, period) if places else ():
            for place in places:
                if self.high is not None and base + place > self.high:
                    return
                if base + place >= first:
                    yield base + place

    def clipped(self, range_: Range) -> Stretch | None:
        """The part inside ``range_``; ``None`` when nothing is left."""
        inside = Range(self.low, self.high).intersect(range_)
        return None if inside.empty else Stretch(inside.min, inside.max, self.mask)


_NONE: Mask = np.zeros(1, dtype=bool)


def masks(parts: tuple[Stretch, ...], pieces: Iterable[Range]) -> Iterator[Mask]:
    """The mask of each piece, in order; none crosses an end of a part."""
    index = 0
    for piece in pieces:
        while index < len(parts) and Range(piece.min, parts[index].high).empty:
            index += 1
        part = parts[index] if index < len(parts) else None
        starts_later = part is not None and part.low is not None and (piece.min is None or part.low > piece.min)
        yield _NONE if part is None or starts_later else part.mask


def tidy(part: Stretch) -> list[Stretch]:
    """The stretch with the shortest mask and ends that are members."""
    mask = part.mask
    if part.low is not None and part.high is not None and part.high - part.low + 1 < len(mask):
        count = part.high - part.low + 1
        mask = patterns.from_stretch(patterns.stretch(mask, part.low, count), part.low)
    if not mask.any():
        return []
    mask = patterns.reduce_period(mask)
    short = Stretch(part.low, part.high, mask)
    low = None if part.low is None else short.at_least(part.low)
    high = None if part.high is None else short.at_most(part.high)
    if (part.low is not None and low is None) or (part.high is not None and high is None):
        return []
    if low is not None and high is not None and high - low + 1 < len(mask):
        return tidy(Stretch(low, high, mask)) if (low, high) != (part.low, part.high) else [short]
    single = low is not None and low == high
    return [Stretch(low, high, ALL if single else mask)]


def merged(parts: list[Stretch]) -> list[Stretch]:
    """Neighbours joined where one pattern covers both."""
    parts.sort(key=lambda part: (part.low is not None, part.low or 0))
    done: list[Stretch] = []
    for part in parts:
        joined = _joined(done[-1], part) if done else None
        while joined is not None:
            done.pop()
            part = joined
            joined = _joined(done[-1], part) if done else None
        done.append(part)
    return done


def _joined(left: Stretch, right: Stretch) -> Stretch | None:
    if left.high is None or right.low is None:
        return None
    for mask in (right.mask, left.mask) if len(right.mask) <= len(left.mask) else (left.mask, right.mask):
        if _follows(mask, left) and _follows(mask, right) and _free(mask, left.high + 1, right.low - 1):
            return Stretch(left.low, right.high, mask)
    return None


def _follows(mask: Mask, part: Stretch) -> bool:
    if mask is part.mask or np.array_equal(mask, part.mask):
        return True
    if part.low is None or part.high is None:
        return False
    count = part.high - part.low + 1
    if count > len(mask) * len(part.mask):
        return False  # both patterns, each the shortest, repeat over the stretch and differ
    return bool(np.array_equal(patterns.stretch(mask, part.low, count), patterns.stretch(part.mask, part.low, count)))


def _free(mask: Mask, low: int, high: int) -> bool:
    return low > high or not patterns.stretch(mask, low, min(high - low + 1, len(mask))).any()


def split(low: int, mask: Mask) -> list[Stretch]:
    """A spelled-out set as stretches: periodic ends are found from the right, the rest stays spelled out."""
    parts: list[Stretch] = []
    while mask.any() and len(parts) < 8:
        ends = np.flatnonzero(mask)
        low, mask = low + int(ends[0]), mask[int(ends[0]) : int(ends[-1]) + 1]
        period = patterns.tail_period(mask)
        if period is None:
            break
        differing = np.flatnonzero(mask[period:] != mask[:-period])
        start = int(differing[-1]) + 1 if len(differing) else 0
        part = patterns.from_stretch(mask[start : start + period], low + start)
        parts.append(Stretch(low + start, low + len(mask) - 1, part))
        mask = mask[:start]
    if mask.any():
        parts.append(Stretch(low, low + len(mask) - 1, patterns.from_stretch(mask, low)))
    return parts
