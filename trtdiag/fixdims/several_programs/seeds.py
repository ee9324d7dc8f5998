"""Sizes at which to look for one more program: such that no program takes yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random

import numpy as np

from trtdiag.dims.facts import GuardOrigin
from trtdiag.dims.joint_conditions import point_at
from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.dims.solver.constraint_losses import Points
from trtdiag.dims.solver_input import system_of
from trtdiag.fixdims.branch_advice import only_refuses
from trtdiag.fixdims.several_programs.admitted_sizes import Conditions, View, sizes_in
from trtdiag.fixdims.several_programs.coordinates import Coordinate
from trtdiag.fixdims.several_programs.coverage import OPEN_VALUES, free, members, sample, window
from trtdiag.graph.source import Stack
from trtdiag.symbolic import evaluate_masked, free_symbols
from trtdiag.symbolic.checked_arrays import IntArray
from trtdiag.symbolic.expr import Compare, Condition, Relation
from trtdiag.symbolic.patterns import Mask

SAMPLED = 1 << 14
BESIDE = 1 << 10
"""Sizes above the example's that are tried for one, where a Dim leaves out the example's own."""
DIVISORS = tuple(range(2, 17))
DIVISOR_WORTH = (0.0, 0.35, 1.0)
"""How many times (as a logarithm) farther off a size may be for each of ``DIVISORS`` that divides it.  Own choice: from
12, the first of these goes to 60, the second to 240."""
LEAST_SIZE = 2
"""An example of 0 or 1 becomes a constant in the program: torch takes it for one."""

Point = dict[str, int]


@dataclass(frozen=True)
class OtherWay:
    """Sizes that go another way than every export so far.

    Attributes:
        broken: The conditions that do not hold there, over the coordinates.
        stacks: Where each of those stands.
        share: The share of the asked sizes, as far as the sample tells.
        points: Sizes to export with, nearest to the example's first; then such with more divisors, for an op on that
            way may need multiples.
    """

    broken: frozenset[Condition]
    stacks: Mapping[Condition, Stack]
    share: float
    points: tuple[Point, ...]


class Seeds:
    """Samples of the asked sizes, looked at again as programs are found.

    Args:
        coordinates: What was asked.
        examples: Site -> the example's size.
    """

    def __init__(self, coordinates: Sequence[Coordinate], examples: Mapping[str, int]) -> None:
        self.coordinates = free(coordinates)
        self.points = sample(coordinates, SAMPLED)
        self.example = _values(self.coordinates, examples)
        self.example_asked = all(
            each.name in self.example and self.example[each.name] in each.range for each in self.coordinates
        )
        if self.points and self.example_asked:
            self.points = {n: np.append(values, self.example[n]) for n, values in self.points.items()}
        self._ties: list[dict[str, IntArray]] = []

    def add_view(self, view: View) -> None:
        """Points on the way of ``view``, which chance alone does not meet where it ties sizes to one another."""
        random = Random(1)
        box = system_of(view.tried.inputs, view.plan).box
        arrays: dict[str, IntArray] = {}
        for symbol, range_ in box.items():
            low = range_.min or 0
            high = low + OPEN_VALUES if range_.max is None else range_.max
            arrays[symbol] = np.array(
                [random.randint(low, max(low, high)) for _ in range(SAMPLED // 8)], dtype=np.int64
            )
        sizes = sizes_in(view.tried.inputs)
        inside = np.ones(SAMPLED // 8, dtype=bool)
        points: dict[str, IntArray] = {}
        for each in self.coordinates:
            if each.site not in sizes or not free_symbols(sizes[each.site]) <= arrays.keys():
                return
            values, defined = evaluate_masked(sizes[each.site], arrays)
            scale, offset = each.lines[each.site]
            found = np.broadcast_to((np.asarray(values) - offset) // scale, inside.shape).astype(np.int64)
            range_ = window(each)
            inside &= defined & ((found * scale + offset) == values) & (found >= (range_.min or 0))
            inside &= found <= (range_.max or 0)
            points[each.name] = found
        self._ties.append({name: values[inside] for name, values in points.items()})

    def inside(self, view: View, taken: Sequence[Conditions]) -> Iterator[tuple[Point, list[Conditions]]]:
        """Points on the way of ``view`` that no program takes: one next to the example, one by chance, and so on.

        What is appended to the list that comes with a point is not looked at again.
        """
        allowed = tuple(condition for condition, _ in view.conditions)
        for points in (self.points, *self._ties):
            left = self._left(points, allowed, taken)
            more: list[Conditions] = []
            for nearest in cycle((self._nearest, self._by_chance)):
                if not left.any():
                    break
                index = nearest(points, left)
                yield point_at(points, index), more
                left[index] = False
                for program in more:
                    left &= ~members(program, points)

    def example_for(self, plan: Plan, taken: Conditions, others: Sequence[Conditions]) -> Point | None:
        """Sizes to export ``plan`` with, where there are any that no other program takes.

        The Dims behind derived sizes are not 0 or 1 there.
        """

        def left_of(points: Points) -> Mask:
            left = self._left(points, taken, others)
            for each in self.coordinates:
                leaf = plan.leaves[each.site]
                if leaf.kind is LeafKind.DIM:
                    scale, offset = each.lines[each.site]
                    left &= points[each.name] * scale + offset >= LEAST_SIZE * leaf.scale + leaf.offset
            return left

        for points in (self.points, *self._ties):
            left = left_of(points)
            if left.any():
                return self._as_example(point_at(points, self._nearest(points, left)), left_of, BESIDE)
        return None

    def elsewhere(
        self, views: Sequence[View], taken: Sequence[Conditions], dead: set[frozenset[Condition]]
    ) -> list[OtherWay]:
        """The other ways that conditions send sizes which no program takes, those of most sizes first."""
        told = _Told(views)
        left = self._left(self.points, (), taken) & told.crossed(self.points)
        if not left.any() or not told.keys:
            return []
        broken, hurdles = told.broken(self.points), told.hurdles(self.points)
        patterns, index = np.unique(broken[:, left], axis=1, return_inverse=True)
        places = np.flatnonzero(left)
        found = []
        for number, pattern in enumerate(patterns.T):
            chosen = [key for key, bit in zip(told.keys, pattern, strict=True) if bit]
            broken_here = frozenset(condition for condition, _ in chosen)
            if broken_here in dead:
                continue
            group = np.zeros(len(left), dtype=bool)
            group[places[np.ravel(index) == number]] = True
            share = float(group.mean())
            least = hurdles[group].min()
            group &= hurdles == least

            def alike(points: Points, pattern: Mask = pattern, least: np.int64 = least) -> Mask:
                same: Mask = self._left(points, (), taken) & told.crossed(points) & (told.hurdles(points) == least)
                for row, wanted in zip(told.broken(points), pattern, strict=True):
                    same &= row == wanted
                return same

            nearest = (point_at(self.points, self._nearest(self.points, group, worth)) for worth in DIVISOR_WORTH)
            ways = tuple(self._as_example(point, alike) for point in nearest)
            found.append(OtherWay(broken_here, dict(reversed(chosen)), share, ways))
        return sorted(found, key=lambda way: (-way.share, sorted(way.points[0].items())))

    def _as_example(self, point: Point, alike: Callable[[Points], Mask], beside: int = 0) -> Point:
        """``point`` with the example's sizes, or asked ones next to them, where that stays ``alike``."""
        for each in self.coordinates:
            asked = window(each)
            size = min(max(self.example.get(each.name, point[each.name]), asked.min or 0), asked.max or 0)
            sizes = np.arange(size, max(size, min(point[each.name], size + beside)) + 1)
            moved = {name: np.full(len(sizes), value, dtype=np.int64) for name, value in point.items()}
            fits = alike({**moved, each.name: sizes})
            if fits.any():
                point = {**point, each.name: int(sizes[int(np.argmax(fits))])}
        return point

    def _left(self, points: Mapping[str, IntArray], inside: Conditions, taken: Sequence[Conditions]) -> Mask:
        """The points that satisfy ``inside``, that no program takes, and that can be sizes of an example."""
        left = members(inside, points)
        for program in taken:
            left &= ~members(program, points)
        for each in self.coordinates:
            for scale, offset in each.lines.values():
                if (window(each).max or 0) * scale + offset >= LEAST_SIZE:
                    left &= points[each.name] * scale + offset >= LEAST_SIZE
        return left

    def _by_chance(self, points: Points, among: Mask) -> int:
        """One of them: by chance where most are, so that around it more is left than at a corner."""
        places = np.flatnonzero(among)
        return int(places[len(places) // 2])

    def _nearest(self, points: Mapping[str, IntArray], among: Mask, worth: float = 0.0) -> int:
        """The point whose sizes are fewest times larger or smaller than the example's.

        Args:
            points: Where to look.
            among: Which of them count.
            worth: What a divisor counts.
        """
        places = np.flatnonzero(among)
        far = np.zeros(len(places))
        for each in self.coordinates:
            example = max(1, self.example.get(each.name, window(each).min or 1))
            values = points[each.name][places]
            far += np.abs(np.log(np.maximum(values, 1) / example))
            scale, offset = each.lines[each.site]
            for divisor in DIVISORS if worth else ():
                far -= worth * ((values * scale + offset) % divisor == 0)
        return int(places[int(np.argmin(far))])


class _Told:
    """What the conditions of exports say of points: which of them go another way than every export.

    Attributes:
        keys: The conditions that send sizes another way, with where each stands.
    """

    def __init__(self, views: Sequence[View]) -> None:
        self.keys: list[tuple[Condition, Stack]] = []
        self._hurdles: list[Condition] = []
        self._views: list[tuple[Conditions, Conditions]] = []
        for view in views:
            ways: list[Condition] = []
            shut: list[Condition] = []
            for condition, origin in view.conditions:
                source = None if origin is None else view.tried.conditions.get(origin)
                if source is None or not (source.branch or _refuses_nothing(source) or _unequal(condition)):
                    self._hurdles.append(condition)
                elif source.branch and only_refuses(source.stack.best):
                    shut.append(condition)
                else:
                    ways.append(condition)
                    self.keys.append((condition, source.stack))
            self._views.append((tuple(ways), tuple(shut)))

    def broken(self, points: Points) -> Mask:
        """For each of ``keys`` a row: where it does not hold."""
        return np.stack([~members((condition,), points) for condition, _ in self.keys])

    def hurdles(self, points: Points) -> IntArray:
        """How many conditions do not hold that send sizes nowhere."""
        none = np.zeros(len(members((), points)), dtype=np.int64)
        return sum(((~members((each,), points)).astype(np.int64) for each in self._hurdles), none)

    def crossed(self, points: Points) -> Mask:
        """Where each export has a condition that sends elsewhere, and none that refuses."""
        crossed = members((), points)
        for ways, shut in self._views:
            crossed &= members(shut, points) & ~members(ways, points)
        return crossed


def _refuses_nothing(source: GuardOrigin) -> bool:
    """Whether it only says how a tensor lies in memory, as of a slice that takes all: torch goes on in either case."""
    return source.op == "aten.slice.Tensor" or source.stack.asks_for_layout


def _unequal(condition: Condition) -> bool:
    """Whether it says that two sizes differ: an op mostly has a way for equal ones, too, and asks for none of them."""
    return isinstance(condition, Compare) and condition.relation is Relation.NE


def _values(coordinates: Sequence[Coordinate], examples: Mapping[str, int]) -> Point:
    found = {}
    for each in coordinates:
        if each.site in examples:
            scale, offset = each.lines[each.site]
            found[each.name] = (examples[each.site] - offset) // scale
    return found
