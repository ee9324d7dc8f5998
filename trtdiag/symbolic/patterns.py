"""Masks over residues: ``v`` is in the pattern when ``mask[v % len(mask)]``.

One form serves repeating and irregular sets alike: over a stretch of ``n`` consecutive values, a mask of length ``n``
says each value on its own.
"""

from __future__ import annotations

from functools import lru_cache
from math import lcm

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

ALL: Mask = np.ones(1, dtype=bool)
MOST_MASK = 1 << 24


class PatternError(Exception):
    """A pattern would be larger than memory should hold."""


def at(mask: Mask, value: int) -> bool:
    """Whether ``value`` is in the pattern."""
    return bool(mask[value % len(mask)])


def stretch(mask: Mask, low: int, count: int) -> Mask:
    """The pattern spelled out for ``count`` values from ``low`` on."""
    start = low % len(mask)
    if start + count <= len(mask):
        return mask[start : start + count]
    rolled = np.roll(mask, -start)
    return np.tile(rolled, -(-count // len(mask)))[:count]


def from_stretch(spelled: Mask, low: int) -> Mask:
    """The mask whose stretch from ``low`` on is ``spelled``."""
    return np.roll(spelled, low % len(spelled))


def align(left: Mask, right: Mask, low: int | None, high: int | None) -> tuple[Mask, Mask]:
    """Both masks at one length: their least common multiple, or the length of the stretch ``low..high``.

    Raises:
        PatternError: That length is too large.
    """
    period = lcm(len(left), len(right))
    count = None if low is None or high is None else high - low + 1
    if count is not None and low is not None and count < period:
        if count > MOST_MASK:
            raise PatternError(f"{count} values would be spelled out")
        return tuple(from_stretch(stretch(mask, low, count), low) for mask in (left, right))  # type: ignore[return-value]
    if period > MOST_MASK:
        raise PatternError(f"the common period is {period}")
    return np.tile(left, period // len(left)), np.tile(right, period // len(right))


def reduce_period(mask: Mask) -> Mask:
    """The shortest mask of the same pattern."""
    for prime in _primes(len(mask)):
        while len(mask) % prime == 0 and np.array_equal(mask[len(mask) // prime :], mask[: -len(mask) // prime]):
            mask = mask[: len(mask) // prime]
    return mask


@lru_cache(maxsize=1 << 12)
def _primes(number: int) -> tuple[int, ...]:
    found, prime = [], 2
    while prime * prime <= number:
        if number % prime == 0:
            found.append(prime)
            while number % prime == 0:
                number //= prime
        prime += 1
    return tuple(found + [number] * (number > 1))


_LONGEST_PERIOD = 4096


def tail_period(spelled: Mask) -> int | None:
    """The smallest period that the end of ``spelled`` shows at least twice; ``None`` where there is none."""
    tail = spelled[-2 * _LONGEST_PERIOD :][::-1].tolist()
    # The failure function of Knuth, Morris and Pratt: where it is long, the text repeats itself.
    fail = [0] * len(tail)
    best: int | None = None
    matched = 0
    for index in range(1, len(tail)):
        while matched and tail[index] != tail[matched]:
            matched = fail[matched - 1]
        if tail[index] == tail[matched]:
            matched += 1
        fail[index] = matched
    if fail:
        period = len(tail) - fail[-1]
        best = period if 2 * period <= len(tail) else None
    if best is None:
        # No period of the whole window: the longest end of it that repeats, if it is long enough to mean something.
        for index in range(len(tail) - 1, 7, -1):
            period = index + 1 - fail[index]
            if 3 * period <= index + 1:
                return period
    return best
