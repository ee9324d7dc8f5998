"""The widest runs around a point over which joint conditions hold: any number of parameters, ranges of any size.

That conditions hold over runs is kept when runs get shorter, so each end can be found by halving.  Which end is moved
first decides what is found; several orders are tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from trtdiag.fixdims.oracle import Oracle
from trtdiag.fixdims.runs import single
from trtdiag.fixdims.sizes import volume
from trtdiag.symbolic import Progression, Range

MOST_ORDERS = 6
SCALES = 24  # halvings of the common share of all ranges
FARTHEST = 1 << 70


def expanded(oracle: Oracle, widest: Mapping[str, Progression], point: Mapping[str, int]) -> dict[str, Progression]:
    """The largest runs found that contain ``point`` and lie inside ``widest`` (which have its classes)."""
    if oracle.holds(widest):
        return dict(widest)
    start = {name: single(point[name], run.asked) for name, run in widest.items()}
    found = [_grown(oracle, _scaled(oracle, widest, point), widest, tuple(widest))]
    orders = sorted(permutations(widest), key=lambda order: [-_count(widest[name]) for name in order])
    for order in orders[:MOST_ORDERS]:
        if oracle.clock.out:
            break
        found.append(_grown(oracle, start, widest, order))
    return min(found, key=volume)


def _count(run: Progression) -> int:
    return FARTHEST if run.kept is None else run.kept


def _scaled(oracle: Oracle, widest: Mapping[str, Progression], point: Mapping[str, int]) -> dict[str, Progression]:
    """All runs shortened to the same share of the way from the point to their ends, as long as that holds."""
    start = {name: single(point[name], run.asked) for name, run in widest.items()}
    centres = {name: (point[name] - run.offset) // run.step for name, run in widest.items()}
    best, low, high = start, 0, 1 << SCALES
    for _ in range(SCALES):
        if high - low <= 1 or oracle.clock.out:
            break
        middle = (low + high) // 2
        runs = {name: _shortened(run, centres[name], middle) for name, run in widest.items()}
        if oracle.holds(runs):
            best, low = runs, middle
        else:
            high = middle
    return best


def _shortened(run: Progression, centre: int, share: int) -> Progression:
    low, high = run.range.min, run.range.max
    low = centre - FARTHEST if low is None else low
    high = centre + FARTHEST if high is None else high
    return _between(run, centre - ((centre - low) * share >> SCALES), centre + ((high - centre) * share >> SCALES))


def _between(run: Progression, low: int | None, high: int | None) -> Progression:
    range_ = Range(low, high)
    if range_.single is not None:
        return single(run.step * range_.single + run.offset, run.asked)
    return replace(run, range=range_, kept=range_.count)


def _grown(
    oracle: Oracle, start: Mapping[str, Progression], widest: Mapping[str, Progression], order: Sequence[str]
) -> dict[str, Progression]:
    """``start`` with each end moved outwards as far as it goes, parameter by parameter."""
    runs = dict(start)
    for name in order:
        for up in (True, False):
            runs[name] = _moved(oracle, runs, name, widest[name], up=up)
    return runs


def _moved(oracle: Oracle, runs: Mapping[str, Progression], name: str, widest: Progression, *, up: bool) -> Progression:
    run = runs[name]
    alone = run.single
    low = high = None if alone is None else (alone - widest.offset) // widest.step
    if alone is None:
        low, high = run.range.min, run.range.max
    end, limit = (high, widest.range.max) if up else (low, widest.range.min)

    def with_end(value: int | None) -> Progression:
        return _between(widest, low, value) if up else _between(widest, value, high)

    def fits(value: int | None) -> bool:
        return bool(oracle.holds({**runs, name: with_end(value)}))

    if end == limit or end is None or oracle.clock.out:
        return with_end(end)
    if fits(limit):
        return with_end(limit)
    sign = 1 if up else -1
    good, step = end, 1
    far = limit if limit is not None else end + sign * FARTHEST
    while abs(far - good) > 1 and not oracle.clock.out:
        # Steps double while they fit and the end is far, then the gap is halved.
        reach = good + sign * step
        middle = reach if abs(far - good) > 2 * step else (good + far) // 2
        if fits(middle):
            good, step = middle, step * 2
        else:
            far, step = middle, max(1, abs(middle - good) // 2)
    return with_end(good)
