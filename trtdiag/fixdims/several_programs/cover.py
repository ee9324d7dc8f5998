"""The few declarations that together take most of the asked sizes, found one after another, each exported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from time import monotonic

from trtdiag.dims.declare import declared
from trtdiag.dims.plan import Plan
from trtdiag.dims.solver.choose import choose
from trtdiag.dims.solver_input import stated, system_of
from trtdiag.fixdims.export_loop import Search, Try
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.search_result import SearchResult
from trtdiag.fixdims.several_programs.admitted_sizes import Conditions, View, taken_by_choice, taken_by_plan, view_of
from trtdiag.fixdims.several_programs.coordinates import Coordinate
from trtdiag.fixdims.several_programs.coverage import Counts, members
from trtdiag.fixdims.several_programs.seeds import OtherWay, Point, Seeds
from trtdiag.symbolic import Proof, evaluate, free_symbols, holds
from trtdiag.symbolic.expr import Condition

WORTH = 100
"""A program that adds less than one in so many of the sizes kept so far is not worth a file and an engine."""
MOST_TRIED_EACH = 6  # exports for one more program
MOST_FAILED = 4  # ways that came to nothing, in all
MOST_CHOICES = 4  # declarations compared before one is exported
LEAST_CHOICES = 2  # of them for each way that an export went
SOLVING_S = 2.0  # one of them


@dataclass(frozen=True)
class Part:
    """One declaration of several.

    Attributes:
        plan: What to declare.
        taken: The sizes that it admits, over the coordinates.
        proof: That they satisfy every condition that was recorded.
        found: The search behind it; ``None`` where it was solved only, from the conditions of another export.
    """

    plan: Plan
    taken: Conditions
    proof: Proof
    found: SearchResult | None


@dataclass
class Cover:
    """Declarations that together take more than the first alone.

    Args:
        asked: What the user asked.
        coordinates: Its free sizes.
        examples: Site -> the example's size.
        parts: The declarations found; the first one is given.
        views: What exports said of the sizes that go their way.
        attempt: Exports with a plan; ``None`` solves without any export.
        rounds: As of ``Search``.
        most: How many declarations at most.
        limit_s: No further export begins after so many seconds.
        determine: Whether sizes may be left to torch, as of ``SearchResult``.
    """

    asked: Plan
    coordinates: tuple[Coordinate, ...]
    examples: Mapping[str, int]
    parts: list[Part]
    views: list[View]
    attempt: Try | None
    rounds: int
    most: int
    limit_s: float
    determine: bool = True
    ended: str = ""
    _given_up: list[Conditions] = field(default_factory=list)
    _failed: set[frozenset[Condition]] = field(default_factory=set)
    _count: int = 0

    def __post_init__(self) -> None:
        self._seeds = Seeds(self.coordinates, self.examples)
        for view in self.views:
            self._seeds.add_view(view)

    def search(self) -> None:
        """Find as many more as are worthwhile."""
        deadline = monotonic() + self.limit_s
        while len(self.parts) < self.most:
            if self.attempt is not None and self._count >= MOST_TRIED_EACH * (self.most - 1):
                self.ended = f"{self._count} more exports were made, and no more than that are tried"
                return
            if monotonic() > deadline:
                self.ended = f"{self.limit_s:g} s were spent on more programs"
                return
            if not self._one_more():
                return

    def other_ways(self) -> list[OtherWay]:
        """Ways of the model that no export has gone."""
        return self._seeds.elsewhere(self.views, self._passed_over, self._failed)

    def worth_looking(self, way: OtherWay) -> bool:
        """Whether a program for it could be worth having."""
        return way.points[0] == self._seeds.example or way.share * self._asked * WORTH >= (self._kept or 0)

    @property
    def _asked(self) -> int:
        return Counts([], self.coordinates).asked or 0

    @property
    def _kept(self) -> int | None:
        return Counts([part.taken for part in self.parts], self.coordinates).of((1 << len(self.parts)) - 1)

    @property
    def _passed_over(self) -> list[Conditions]:
        return [*(part.taken for part in self.parts), *self._given_up]

    def _one_more(self) -> bool:
        """Find one more; False where nothing worthwhile is left."""
        inside = self._best_inside()
        ways = self.other_ways() if self.attempt is not None and len(self._failed) < MOST_FAILED else []
        ways = [way for way in ways if self.worth_looking(way)]
        if inside is not None and (not ways or inside[0] >= ways[0].share * self._asked):
            part, point, view = inside[1:]
            made = part if self.attempt is None else self._made(point, view)
            if made is None or not self._adds(made):
                self._given_up.append(part.taken)
            else:
                self.parts.append(made)
            return True
        if not ways:
            return False
        way = ways[0]
        made = None
        for index, point in enumerate(way.points):
            if made is None and point not in way.points[:index]:
                made = self._made(point, None)
        if made is None or not self._adds(made):
            self._failed.add(way.broken)
        else:
            self.parts.append(made)
        return True

    def _best_inside(self) -> tuple[float, Part, Point, View] | None:
        """The declaration that adds most among those that the known conditions allow."""
        best: tuple[float, Part, Point, View] | None = None
        choices = max(LEAST_CHOICES, MOST_CHOICES // len(self.views))
        for view in self.views:
            for point, seen in islice(self._seeds.inside(view, self._passed_over), choices):
                part = self._solved(view, point)
                if part is None:
                    continue
                seen.append(part.taken)
                added = self._added(part)
                if self._worth(part, added) and (best is None or added > best[0]):
                    where = self._seeds.example_for(part.plan, part.taken, self._passed_over)
                    best = added, part, where or point, view
        return best

    def _solved(self, view: View, point: Point) -> Part | None:
        """The best declaration that the conditions of ``view`` allow around ``point``."""
        system = system_of(view.tried.inputs, view.plan)
        try:
            hints = {symbol: int(evaluate(value, point)) for symbol, value in view.values.items()}
        except (KeyError, ZeroDivisionError):
            return None  # a size that torch works out from others is not among the counted ones
        given = stated(view.tried.conditions, system)
        chosen = choose(given, system.box, hints, determine=self.determine, limit_s=SOLVING_S)
        taken = None if chosen.conflict is not None else taken_by_choice(view.tried, chosen, self.coordinates)
        if taken is None or chosen.open or not _holds(taken, point):
            return None
        plan = declared(chosen, view.tried.inputs, view.plan, self.asked)
        return Part(replace(plan, sizes=self._sizes(point)), taken, chosen.proof, None)

    def _sizes(self, point: Point) -> dict[str, int]:
        """The example sizes that a point takes, where they are not the user's own."""
        sizes: dict[str, int] = {}
        for each in self.coordinates:
            if each.name in point:
                sizes.update(each.sizes(point[each.name]))
        return {site: size for site, size in sizes.items() if self.examples.get(site) != size}

    def _made(self, point: Point, view: View | None) -> Part | None:
        """The declaration that an export at ``point`` leads to; ``None`` where it leads to none."""
        assert self.attempt is not None
        start = replace(self.asked, sizes={**self.asked.sizes, **self._sizes(point), **self._following(point, view)})
        shown = ", ".join(f"{each.label} = {point[each.name]}" for each in self.coordinates if each.name in point)
        self._count += 1
        tried = self.attempt(start, f"for another program: {shown}")
        if isinstance(tried, str) or not tried.finished:
            return None
        search = Search(start, {**self.examples, **start.sizes}, self._counted, self.rounds, tried)
        search.moved_collapsed = True  # the example stands for its own part of the sizes, however few they are
        found = search.run()
        if found.plan is None or found.last is None or not found.confirmed or found.last.unread:
            return None
        on_data = found.last.on_data
        if found.last.refused or on_data.failed or on_data.unlike or on_data.unseen or not found.proof.proven:
            return None
        taken = taken_by_plan(found.last, found.plan, self.coordinates)
        seen = view_of(tried, start, self.coordinates)
        if seen is not None:
            self.views.append(seen)
            self._seeds.add_view(seen)
        return None if taken is None else Part(found.plan, taken, found.proof, found)

    def _counted(self, plan: Plan, why: str) -> Tried | str:
        assert self.attempt is not None
        self._count += 1
        return self.attempt(plan, why)

    def _following(self, point: Point, view: View | None) -> dict[str, int]:
        """Sizes that torch works out from the others, at ``point``."""
        sizes: dict[str, int] = {}
        for seen in [view] if view is not None else self.views[:1]:
            inputs = {dim.site: dim.expr for tensor in seen.tried.inputs for dim in tensor.dims}
            for each in self.coordinates:
                if each.follows and each.site in inputs:
                    try:
                        values = {s: int(evaluate(value, point)) for s, value in seen.values.items()}
                        sizes[each.site] = int(evaluate(inputs[each.site], values))
                    except (KeyError, ZeroDivisionError):
                        continue
        return {site: size for site, size in sizes.items() if self.examples.get(site) != size}

    def _added(self, part: Part) -> float:
        """How many sizes no other part takes; estimated where they are too many to count."""
        together = [*(each.taken for each in self.parts), part.taken]
        counts = Counts(together, self.coordinates)
        every = counts.of((1 << len(together)) - 1)
        if every is not None:
            return every - (counts.of((1 << len(self.parts)) - 1) or 0)
        fresh = members(part.taken, self._seeds.points)
        for each in self.parts:
            fresh &= ~members(each.taken, self._seeds.points)
        return float(fresh.mean()) * (counts.asked or 0)

    def _adds(self, part: Part) -> bool:
        return self._worth(part, self._added(part))

    def _worth(self, part: Part, added: float) -> bool:
        """Whether it is worth a program: the user's own example always is."""
        if added <= 0:
            return False
        example, kept = self._seeds.example, self._kept
        own = self._seeds.example_asked and _holds(part.taken, example)
        own = own and not any(_holds(each.taken, example) for each in self.parts)
        return own or kept is None or added * WORTH >= kept


def _holds(taken: Conditions, point: Point) -> bool:
    return all(holds(condition, point) for condition in taken if free_symbols(condition) <= point.keys())
