"""Value spans: which numbers a tensor can hold, why, and whether its ends are really reached."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias, Union

import torch

from trtdiag.symbolic.ranges import Range

Real: TypeAlias = Union[int, float]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

# Beyond this an end of an int64 span says no more than "any int64" does.
_AS_GOOD_AS_OPEN = 2**62
# Relative and absolute room for the rounding of float arithmetic, before floats become integers: bfloat16 keeps
# 8 bits of a product (2**-8), and two such roundings may add up.
_FLOAT_ROOM = 2.0**-7


@dataclass(frozen=True, slots=True)
class Span:
    """All values of a tensor lie in ``low..high``.

    Attributes:
        low: The least value, exact for integer tensors.
        high: The greatest value.
        why: Where the ends come from, one clause.
        attained: Whether the tensor surely holds both ends: constants that were read, and reorderings of them.
        root: Where the values became unknown, ``node: why``; empty for a span that is known.
    """

    low: Real
    high: Real
    why: str
    attained: bool = False
    root: str = ""

    @property
    def fits_int32(self) -> bool:
        """Whether int32 holds every value."""
        return self.low >= INT32_MIN and self.high <= INT32_MAX

    def as_range(self) -> Range:
        """Return the span as integers; an end that is as good as unknown is open."""
        low = None if self.low <= -_AS_GOOD_AS_OPEN and not self.attained else int(self.low)
        high = None if self.high >= _AS_GOOD_AS_OPEN and not self.attained else int(self.high)
        return Range(low, high)

    def part(self) -> Span:
        """Return the span of a tensor that holds only some of these values."""
        return replace(self, attained=False) if self.attained else self

    def __str__(self) -> str:
        return str(self.as_range()) if is_finite(self.low, self.high) else f"{self.low}..{self.high}"


def is_finite(*ends: Real) -> bool:
    """Whether no end is infinite or no number."""
    return all(math.isfinite(end) for end in ends)


def limits(dtype: torch.dtype) -> tuple[Real, Real]:
    """Return the least and greatest value of a dtype; floats are unbounded."""
    if dtype == torch.bool:
        return 0, 1
    if dtype.is_floating_point or dtype.is_complex:
        return -math.inf, math.inf
    try:
        found = torch.iinfo(dtype)
    except TypeError:
        # Packed and quantized dtypes have no iinfo; they are no integers to reason about.
        return -math.inf, math.inf
    return found.min, found.max


def unknown(dtype: torch.dtype, why: str, root: str = "") -> Span:
    """Return the span that says nothing but the dtype."""
    low, high = limits(dtype)
    return Span(low, high, why, root=root)


def join(spans: Iterable[Span]) -> Span:
    """Return the smallest span around several; the text of the widest one that does not fit, else of the first."""
    parts = list(spans)
    low, high = min(part.low for part in parts), max(part.high for part in parts)
    if len(parts) == 1:
        return parts[0]
    worst = next((part for part in parts if not part.fits_int32), None)
    whys = dict.fromkeys(part.why for part in parts)
    why = worst.why if worst else " or ".join(list(whys)[:2])
    return Span(low, high, why, all(part.attained for part in parts), worst.root if worst else "")


def leaves_dtype(span: Span, dtype: torch.dtype) -> bool:
    """Whether computed integers may lie outside their dtype, and so wrap around in a tensor of it."""
    low, high = limits(dtype)
    return not (span.low >= low and span.high <= high)


def confine(span: Span, dtype: torch.dtype) -> Span:
    """Return what is left of a computed span in a tensor of ``dtype``: integers that leave it wrap around."""
    low, high = limits(dtype)
    if math.isnan(span.low) or math.isnan(span.high):
        return unknown(dtype, span.why, span.root)
    if dtype.is_floating_point:
        return _rounded(span, dtype)
    if not leaves_dtype(span, dtype):
        return span
    why = span.why if span.root else f"may wrap around: {span.why}"
    return Span(low, high, why, root=span.root or why)


def _rounded(span: Span, dtype: torch.dtype) -> Span:
    """Return a span in a float dtype: integers that it cannot hold exactly become floats, to be given room later."""
    largest = max(abs(span.low), abs(span.high))
    if largest > torch.finfo(dtype).max:
        return unknown(dtype, span.why, span.root)
    # All integers up to 2 / eps are exact: 2**24 for float32.
    if largest * torch.finfo(dtype).eps > 2:
        return replace(span, low=float(span.low), high=float(span.high), attained=False)
    return span


def to_integers(span: Span) -> Span:
    """Return the integers that a float span becomes when truncated, with room for float rounding."""
    if not is_finite(span.low, span.high):
        return replace(span, low=INT64_MIN, high=INT64_MAX, attained=False)
    if isinstance(span.low, int) and isinstance(span.high, int):
        return span
    room_low = abs(span.low) * _FLOAT_ROOM
    room_high = abs(span.high) * _FLOAT_ROOM
    return replace(span, low=math.floor(span.low - room_low), high=math.ceil(span.high + room_high), attained=False)
