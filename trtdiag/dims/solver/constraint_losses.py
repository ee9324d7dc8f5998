"""How much each condition takes away, so that the one that decides is named first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from trtdiag.symbolic import Range, free_symbols, holds_array
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.grid import Grid, tuple_count

MOST_POINTS = 1 << 12
MOST_RANKED = 64  # more conditions of one dim are left in their order behind these
_OPEN = 1 << 12  # values looked at above the lower end of a range without an upper one

Points = Mapping[str, npt.NDArray[np.int64]]


def share_held(condition: Condition, ranges: Mapping[str, Range]) -> float:
    """The share of sizes in ``ranges`` for which ``condition`` holds; counted where they are few, else of a sample.

    1 where it has powers that are not computed for many sizes.
    """
    symbols = free_symbols(condition)
    if not symbols or any(symbol not in ranges or ranges[symbol].empty for symbol in symbols):
        return 1.0
    points, _all = _points({s: ranges[s] for s in sorted(symbols)})
    held = _held(condition, points)
    return 1.0 if held is None else float(np.mean(held))


def decisive_first(conditions: Sequence[Condition], ranges: Mapping[str, Range]) -> tuple[Condition, ...]:
    """``conditions``, those that take the most sizes away first; one that only says again what they say is left out."""
    ranked = [c for c in conditions if free_symbols(c) <= ranges.keys()][:MOST_RANKED]
    symbols = sorted(set().union(*(free_symbols(c) for c in ranked)))
    if len(ranked) < 2 or any(ranges[s].empty for s in symbols):
        return tuple(conditions)
    points, every = _points({s: ranges[s] for s in symbols})
    found = {condition: _held(condition, points) for condition in ranked}
    held = {condition: mask for condition, mask in found.items() if mask is not None}
    # Else in the order that they came in.
    ranked = sorted(held, key=lambda condition: int(np.count_nonzero(held[condition])))
    kept: list[Condition] = []
    left = np.ones(len(next(iter(points.values()))), dtype=bool)
    for condition in ranked:
        # What takes away none of a sample may still take others: it stays, behind the rest.
        if np.any(left & ~held[condition]) or (np.all(held[condition]) and not every):
            kept.append(condition)
            left &= held[condition]
    kept = kept or ranked  # nothing of it alone: then what is behind it together
    return (*kept, *(condition for condition in conditions if condition not in held))


def _points(ranges: Mapping[str, Range]) -> tuple[Points, bool]:
    """Sizes to look at, and whether these are all that there are."""
    spans = {name: _span(range_) for name, range_ in ranges.items()}
    count = tuple_count(list(spans), spans)
    if count is not None and count <= MOST_POINTS:
        return Grid.of(list(spans), spans).columns(), all(range_.max is not None for range_ in ranges.values())
    # By chance, but always the same: a regular step would meet the residues that conditions ask for.
    chance = np.random.default_rng(0)
    sample = {
        name: chance.integers(span.min or 0, (span.max or 0) + 1, size=MOST_POINTS, dtype=np.int64)
        for name, span in spans.items()
    }
    return sample, False


def _span(range_: Range) -> Range:
    low = range_.min or 0
    high = low + _OPEN if range_.max is None else range_.max
    return Range(low, min(high, (1 << 62) - 1))


def _held(condition: Condition, points: Points) -> npt.NDArray[np.bool_] | None:
    named = {name: values for name, values in points.items() if name in free_symbols(condition)}
    try:
        return np.asarray(holds_array(condition, named), dtype=bool)
    except OverflowError:  # of powers of fractions, and of large ones
        return None
