"""The widest runs around a point over which joint conditions hold: any number of parameters, ranges of any size.

That conditions hold over runs is kept when runs get shorter, so each end can be found by halving.  Which end is moved
first decides what is found; several orders are tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product

from trtdiag.dims.solver.constraint_checker import ConstraintChecker
from trtdiag.dims.solver.runs import between
from trtdiag.dims.solver.volume import volume
from trtdiag.symbolic import Progression
from trtdiag.symbolic.progressions import single

MOST_ORDERS = 6
MOST_FIRST = 120
SCALES = 24  # halvings of the common share of all ranges
FARTHEST = 1 << 70
TRADES = (2, 4, 16, 256)
MOST_TRADES = 64


def expanded(
    oracle: ConstraintChecker, widest: Mapping[str, Progression], point: Mapping[str, int]
) -> dict[str, Progression]:
    """The largest runs found that contain ``point`` and lie inside ``widest`` (which have its classes)."""
    if oracle.holds(widest):
        return dict(widest)
    start = {name: single(point[name], run.asked) for name, run in widest.items()}
    search = _Search(oracle, widest, {name: (point[name] - run.offset) // run.step for name, run in widest.items()})
    found = [search.grown(search.scaled(start), tuple(widest))]
    kept = {name: FARTHEST if run.kept is None else run.kept for name, run in widest.items()}
    orders = sorted(islice(permutations(widest), MOST_FIRST), key=lambda order: [-kept[name] for name in order])
    for order in orders[:MOST_ORDERS]:
        if oracle.clock.out:
            break
        found.append(search.grown(start, order))
    return search.traded(min(found, key=volume))


@dataclass(frozen=True)
class _Search:
    """Moves ends of runs.

    Attributes:
        oracle: Says whether runs hold.
        widest: What the runs lie inside.
        centres: The step of each of these at the point.
    """

    oracle: ConstraintChecker
    widest: Mapping[str, Progression]
    centres: Mapping[str, int]

    def scaled(self, start: Mapping[str, Progression]) -> dict[str, Progression]:
        """Open ends first; then all others at the same share of the way from the point, as far as that holds."""
        opened = dict(start)
        for name, run in self.widest.items():
            for up in (True, False):
                if (run.range.max if up else run.range.min) is None:
                    opened[name] = self.moved(opened, name, up=up)
        best, low, high = opened, 0, 1 << SCALES
        while high - low > 1 and not self.oracle.clock.out:
            middle = (low + high) // 2
            runs = {
                name: _shortened(run, self.centres[name], middle, opened[name]) for name, run in self.widest.items()
            }
            if self.oracle.holds(runs):
                best, low = runs, middle
            else:
                high = middle
        return best

    def traded(self, runs: dict[str, Progression]) -> dict[str, Progression]:
        """Give up a share of one run at one end for more of the others, as long as that pays."""
        tries, paid = 0, True
        while paid:
            paid = False
            for name, share, up in product(runs, TRADES, (True, False)):
                if tries >= MOST_TRADES or self.oracle.clock.out:
                    return runs
                less = _less(runs[name], self.widest[name], self.centres[name], share, up=up)
                if less is None:
                    continue
                tries += 1
                found = self.grown({**runs, name: less}, (*(other for other in runs if other != name), name))
                if volume(found) < volume(runs):
                    runs, paid = found, True
        return runs

    def grown(self, start: Mapping[str, Progression], order: Sequence[str]) -> dict[str, Progression]:
        """``start`` with each end moved outwards as far as it goes, parameter by parameter."""
        runs = dict(start)
        for name, up in product(order, (True, False)):
            runs[name] = self.moved(runs, name, up=up)
        return runs

    def moved(self, runs: Mapping[str, Progression], name: str, *, up: bool) -> Progression:
        """One run with one end moved outwards as far as it goes beside the others."""
        run, widest, clock = runs[name], self.widest[name], self.oracle.clock
        alone = run.single
        low = high = None if alone is None else (alone - widest.offset) // widest.step
        if alone is None:
            low, high = run.range.min, run.range.max
        end, limit = (high, widest.range.max) if up else (low, widest.range.min)

        def with_end(value: int | None) -> Progression:
            return between(widest, low, value) if up else between(widest, value, high)

        def fits(value: int | None) -> bool:
            return bool(self.oracle.holds({**runs, name: with_end(value)}))

        if end == limit or end is None or clock.out:
            return with_end(end)
        if fits(limit):
            return with_end(limit)
        sign = 1 if up else -1
        good, step = end, 1
        far = limit if limit is not None else end + sign * FARTHEST
        while abs(far - good) > 1 and not clock.out:
            # Steps double while they fit and the end is far, then the gap is halved.
            reach = good + sign * step
            middle = reach if abs(far - good) > 2 * step else (good + far) // 2
            if fits(middle):
                good, step = middle, step * 2
            else:
                far, step = middle, max(1, abs(middle - good) // 2)
        return with_end(good)


def _shortened(run: Progression, centre: int, share: int, opened: Progression) -> Progression:
    """Finite ends at a share of their way; an open end is as it was found to be possible."""
    alone = opened.single
    low, high = (centre, centre) if alone is not None else (opened.range.min, opened.range.max)
    if run.range.min is not None:
        low = centre - ((centre - run.range.min) * share >> SCALES)
    if run.range.max is not None:
        high = centre + ((run.range.max - centre) * share >> SCALES)
    return between(run, low, high)


def _less(run: Progression, form: Progression, centre: int, share: int, *, up: bool) -> Progression | None:
    """``run`` with a share of its values less at one end, the centre kept."""
    if run.single is not None or run.range.min is None or run.range.max is None:
        return None
    low, high = run.range.min, run.range.max
    cut = max(1, (high - low + 1) // share)
    low, high = (low, max(centre, high - cut)) if up else (min(centre, low + cut), high)
    return None if (low, high) == (run.range.min, run.range.max) else between(form, low, high)
