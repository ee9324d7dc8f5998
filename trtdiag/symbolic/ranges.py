"""Integer ranges with open ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

INT64_MAX = 2**63 - 1
"""The largest size of a tensor; where torch gives it, or one less, as an end of a range, that is open."""


@dataclass(frozen=True, slots=True)
class Range:
    """All integers from ``min`` to ``max``, both included; ``None`` is an open end."""

    min: int | None = None
    max: int | None = None

    @property
    def bounded(self) -> bool:
        """Whether both ends are numbers."""
        return self.min is not None and self.max is not None

    @property
    def empty(self) -> bool:
        """Whether no integer lies inside."""
        return self.min is not None and self.max is not None and self.min > self.max

    @property
    def single(self) -> int | None:
        """The only value, where there is exactly one."""
        return self.min if self.min is not None and self.min == self.max else None

    @property
    def count(self) -> int | None:
        """How many values lie inside; ``None`` when unbounded."""
        if self.min is None or self.max is None:
            return None
        return max(0, self.max - self.min + 1)

    def __contains__(self, value: int) -> bool:
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    def intersect(self, other: Range) -> Range:
        """The values in both."""
        lows = [end for end in (self.min, other.min) if end is not None]
        highs = [end for end in (self.max, other.max) if end is not None]
        return Range(max(lows) if lows else None, min(highs) if highs else None)

    def cut(self, cuts: Iterable[int]) -> list[Range]:
        """The parts of a range with values, each but the first beginning at one of ``cuts``, those outside left out."""
        inner = sorted(at for at in cuts if at in self and at != self.min)
        ends = (self.min, *inner), (*(at - 1 for at in inner), self.max)
        return [Range(low, high) for low, high in zip(*ends, strict=True)]

    def scaled(self, factor: int, offset: int) -> Range:
        """From the least to the greatest ``factor*v + offset`` of the values ``v``; factor not 0."""
        ends = [None if end is None else factor * end + offset for end in (self.min, self.max)]
        return Range(ends[factor < 0], ends[factor > 0])

    def unscaled(self, factor: int, offset: int) -> Range:
        """All ``d`` for which ``factor*d + offset`` lies inside; factor not 0."""
        inside = self.scaled(1 if factor > 0 else -1, -offset if factor > 0 else offset)
        step = abs(factor)
        return Range(
            None if inside.min is None else -(-inside.min // step), None if inside.max is None else inside.max // step
        )

    def __str__(self) -> str:
        if self.single is not None:
            return str(self.single)
        if self.min is None:
            return "unbounded" if self.max is None else f"{self.max} or less"
        return f"{self.min} or more" if self.max is None else f"{self.min}..{self.max}"

    def of(self, name: str) -> str:
        """The range in a sentence: ``h in 2..64``, ``h is 2 or more``."""
        return f"{name} in {self}" if self.bounded and self.single is None else f"{name} is {self}"
