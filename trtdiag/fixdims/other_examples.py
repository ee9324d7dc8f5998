"""Other example sizes: where the given ones made a dim a constant, or led down a path for few sizes only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, prod
from typing import TYPE_CHECKING

from trtdiag.dims.compare_plans import values_of
from trtdiag.dims.declare import declared
from trtdiag.dims.facts import GuardOrigin
from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.dims.solver.choose import Chosen
from trtdiag.dims.solver_input import dims_in, system_of
from trtdiag.fixdims.branch_advice import only_refuses
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.fix import BRANCH, Alternative
from trtdiag.fixdims.inner_sizes import fixes_inner_size
from trtdiag.fixdims.notes import Notebook
from trtdiag.fixdims.pinned_dims import MOST_TRIES, PinnedGroup, group_of, other_sizes, pinned_groups, zero_groups
from trtdiag.fixdims.plain_numbers import taken_of_any_example, taken_sizes
from trtdiag.frontend.program import InputDim
from trtdiag.symbolic import Range, compare, free_symbols
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.expr import Relation, Sym

if TYPE_CHECKING:
    from trtdiag.fixdims.export_loop import Search

COLLAPSED = Fraction(1, 50)
"""A dim that keeps less than this share because of a Python condition is worth an export with another example.

Own choice: a range rounded to a multiple keeps more for every step up to 50, and the fixed size of a position table, a
hard-coded resolution, keeps less.
"""
SPECIALISED = Fraction(1, 4)
"""The same for a dim that keeps less because an inner size was fixed at the example's (a map of 1x1), where the whole
answer keeps so little that another example may be worth it."""
WORTH_MOVING = 10
"""How many times the combinations another example must keep: the user's own is given up for it."""
WORTH_UNPINNING = 2
"""The same where fewer dims are left with one value."""


@dataclass(frozen=True)
class BeforeMoving:
    """A try with the example as it was given, and what the dims were for which it was moved then."""

    plan: Plan
    tried: Tried
    groups: Sequence[PinnedGroup]


class OtherExamples:
    """Exports with other examples, for one search."""

    def __init__(self, search: Search) -> None:
        self.search = search

    def for_pinned(self, plan: Plan, tried: Tried) -> tuple[Plan, Tried]:
        """The plan with an example that makes fewer dims a constant, and its try; the given ones where none does."""
        search = self.search
        found = pinned_groups(tried, plan, {**search.examples, **plan.sizes})
        groups = [_tried_less(group, tried) for group in found if group.key not in search.moved_pinned]
        if not groups:
            return plan, tried
        search.moved_pinned.update(group.key for group in groups)
        best, left = (plan, tried), {group.key for group in groups}
        compared: dict[str, tuple[PinnedGroup, Tried]] = {}
        for moved, again in self._other_exports(groups, plan):
            there = pinned_groups(again, moved, {**search.examples, **moved.sizes})
            compared.update((group.key, (group, again)) for group in there if not group.by_example)
            still = {group.key for group in there}
            if len(still) < len(left):
                best, left = (moved, again), still
            if all(_of_any_example(group, again) for group in there):
                break  # also where there is none
        for group in groups:
            done = group.key not in left
            search.notebook.pinned(group, tried, moved=best[0].sizes.get(group.sites[0]) if done else None)
            if group.by_example and not done and group.key in compared:
                search.notebook.pinned(*compared[group.key], moved=None, example=": with another example")
        if best[1] is not tried:
            search.before_moving = search.before_moving or BeforeMoving(plan, tried, groups)
        kept = {site: size for site, size in best[0].sizes.items() if self._needed(site, size, best[0], left)}
        return replace(best[0], sizes=kept), best[1]

    def for_zero(self, plan: Plan, tried: Tried) -> tuple[Plan, Tried] | None:
        """The plan with an example that torch accepts, where the given one is 0 of a Dim, and its try."""
        search = self.search
        groups = zero_groups(plan, {**search.examples, **plan.sizes})
        for moved, again in self._other_exports(groups, plan):
            for group in groups:
                search.notebook.pinned(group, tried, moved=moved.sizes.get(group.sites[0]))
            return moved, again
        return None

    def moved_back(self, plan: Plan, failed: Tried) -> tuple[Plan, Tried] | None:
        """The try before an example was moved, where exports with the other one stop; no example is moved any more."""
        before = self.search.before_moving
        if before is None:
            return None
        moved = ", ".join(f"{s} = {size}" for s, size in _moved(plan, before).items())
        told = failed.message.strip().partition("\n")[0]
        self.search.found.notes.append(f"with another example ({moved}) the export fails: {told}")
        return self._given(before)

    def moved_for_nothing(self, plan: Plan) -> tuple[Plan, Tried] | None:
        """The try before an example was moved, where each dim that it was moved for has one size in the end."""
        before = self.search.before_moving
        if before is None or not self.search.found.confirmed:
            return None
        moved = _moved(plan, before)
        single = bool(moved) and all(plan.leaves[site].kind is LeafKind.STATIC for site in moved)
        if not single or _combinations(plan) > _combinations(self._declared(before)):
            return None
        return self._given(before)

    def _declared(self, before: BeforeMoving) -> Plan:
        """What the conditions of a try allow, as far as they are known then."""
        chosen = self.search.chosen(before.tried, system_of(before.tried.inputs, before.plan))
        if chosen.conflict is not None:
            return before.plan.with_static(self.search.examples)
        return declared(chosen, before.tried.inputs, before.plan, self.search.asked)

    def _given(self, before: BeforeMoving) -> tuple[Plan, Tried]:
        search = self.search
        search.before_moving, search.moved_collapsed, search.found.confirmed = None, True, False
        search.notebook = search.found.notebook = Notebook(search.notebook.names, search.solving)
        for group in before.groups:
            search.notebook.pinned(group, before.tried, moved=None)
        return before.plan, before.tried

    def _other_exports(self, groups: Sequence[PinnedGroup], plan: Plan) -> Iterator[tuple[Plan, Tried]]:
        """The plan with one example after another, each with its try.

        Those whose export did not end, or whose program fails with what it was exported with, are left out.
        """
        for sizes in other_sizes(groups, plan):
            shown = ", ".join(f"{site} = {size}" for site, size in sizes.items() if plan.sizes.get(site) != size)
            moved = replace(plan, sizes=sizes)
            again = self.search.attempt(moved, f"with another example: {shown}")
            if not isinstance(again, str) and again.finished and not again.on_data.failed:
                yield moved, again

    def _needed(self, site: str, size: int, plan: Plan, left: set[str]) -> bool:
        """Whether the moved example size belongs to a dim that is dynamic now."""
        leaf = plan.leaves.get(site)
        return leaf is None or (leaf.root or site) not in left or self.search.examples.get(site) == size

    def for_collapsed(self, plan: Plan, tried: Tried, chosen: Chosen) -> tuple[Plan, Tried, Chosen]:
        """The plan with an example off the path that only few sizes take; the given one where none keeps far more."""
        groups = self._collapsed(plan, tried, chosen)
        if not groups:
            return plan, tried, chosen
        search = self.search
        search.moved_collapsed = True
        share = _share(plan, tried, chosen)
        for moved, again in self._other_exports(groups, plan):
            if pinned_groups(again, moved, {**search.examples, **moved.sizes}):
                continue
            answer = search.chosen(again, system_of(again.inputs, moved))
            if answer.conflict is not None:
                continue
            fewer = _bound(moved, again, answer) < _bound(plan, tried, chosen)
            if _share(moved, again, answer) >= (WORTH_UNPINNING if fewer else WORTH_MOVING) * share:
                for group in groups:
                    self._note(group, tried, chosen, plan)
                search.before_moving = search.before_moving or BeforeMoving(plan, tried, ())
                return moved, again, answer
        return plan, tried, chosen

    def _note(self, group: PinnedGroup, tried: Tried, chosen: Chosen, plan: Plan) -> None:
        notebook = self.search.notebook
        dims = [dim for dim, _leaf in dims_in(tried.inputs, plan) if dim.site in group.sites]
        notebook.round(tried, plan, system_of(tried.inputs, plan), chosen, only=group.sites)
        for dim in dims:
            note, name = notebook.of(dim.site), notebook.names.get(dim.site, dim.site)
            note.kind, note.allowed, note.alternatives = "example", "", []
            values = _values(dim, chosen)
            note.alternatives = [
                Alternative(f"with the example as it is: {values}", None, f"the path of {name}'s example")
            ]

    def _collapsed(self, plan: Plan, tried: Tried, chosen: Chosen) -> list[PinnedGroup]:
        """Dims that keep hardly anything because of a Python condition, or no size but the example's."""
        box = system_of(tried.inputs, plan).box
        found: dict[str, list[str]] = {}
        beyond: dict[str, list[int]] = {}
        examples = {**self.search.examples, **plan.sizes}
        share = _share(plan, tried, chosen)
        little = share * WORTH_MOVING <= 1
        taken = taken_sizes(tried.conditions).keys()
        for dim, leaf in dims_in(tried.inputs, plan):
            symbols = free_symbols(dim.expr)
            blamed = [c for s in symbols for c in chosen.narrowed_by.get(s, ())]
            if not symbols.isdisjoint(taken):
                continue  # it would be that of any example
            branches = [c for c in blamed if c in tried.conditions and tried.conditions[c].branch]
            least = min((_kept(s, chosen, box[s].count) for s in symbols if s in box), default=Fraction(1))
            alone = any(_single(s, chosen, box) for s in symbols)
            fixed = little and least < SPECIALISED and any(fixes_inner_size(c) for c in blamed)
            if fixed or (alone and blamed) or (least < COLLAPSED and branches):
                key = leaf.root or dim.site
                found.setdefault(key, []).append(dim.site)
                if fixed:
                    beyond.setdefault(key, _sizes_beyond(dim, examples[dim.site], chosen, box))
        for site in _joined_by_branch(tried, plan) if share * WORTH_UNPINNING <= 1 else ():
            found.setdefault(plan.leaves[site].root or site, []).append(site)
        groups = [group_of(key, [(site, examples[site]) for site in sites], plan) for key, sites in found.items()]
        return [_with_sizes(group, beyond.get(group.key, [])) for group in groups]


def _moved(plan: Plan, before: BeforeMoving) -> dict[str, int]:
    return {site: size for site, size in plan.sizes.items() if before.plan.sizes.get(site) != size}


def _combinations(plan: Plan) -> float:
    """How many combinations of sizes a declaration admits, dims of several left out."""
    leaves = [plan.leaves[sites[0]] for sites in plan.groups().values()]
    counts = (values_of(leaf, plan) for leaf in leaves)
    return prod(inf if values is None or values.count is None else values.count for values in counts)


def _tried_less(group: PinnedGroup, tried: Tried) -> PinnedGroup:
    """``group`` with one other size where something takes the size of any example: a loop, ``linspace``."""
    return replace(group, others=group.others[:1]) if _of_any_example(group, tried) else group


def _of_any_example(group: PinnedGroup, tried: Tried) -> bool:
    number = compare(Relation.EQ, Sym(group.key), group.value)
    pins = [pin for pin in tried.pins if pin.site in group.sites]
    origins = [GuardOrigin.traced("ShapeEnv", pin.stack, pin.op) for pin in pins]
    return not group.by_example and any(taken_of_any_example(number, origin) for origin in origins)


def _sizes_beyond(dim: InputDim, size: int, chosen: Chosen, box: Mapping[str, Range]) -> list[int]:
    """Sizes right beyond the kept ones, in the larger part of the range: multiples of the example's first."""
    line = affine(dim.expr)
    if line is None or line[0] not in chosen.sets or line[0] not in box or line[1] < 1:
        return []
    kept, asked = (range_.scaled(*line[1:]) for range_ in (chosen.sets[line[0]].extent, box[line[0]]))
    if kept.min is None or kept.max is None or asked.min is None:
        return []
    above = None if asked.max is None else asked.max - kept.max
    if above is not None and above < kept.min - asked.min:
        below = kept.min - 1
        return [below // size * size, below] if below >= size else [below]
    first = (kept.max // size + 1) * size
    return [first, kept.max + 1, first + size]


def _with_sizes(group: PinnedGroup, sizes: Sequence[int]) -> PinnedGroup:
    """``group`` with other sizes to try before its own."""
    fitting = [size for size in sizes if size in group.range]
    return replace(group, others=tuple(dict.fromkeys((*fitting, *group.others)))[:MOST_TRIES])


def _kept(symbol: str, chosen: Chosen, asked: int | None) -> Fraction:
    values = chosen.sets.get(symbol)
    if values is None or values.kept is None or asked is None or asked == 0:
        return Fraction(1)
    return Fraction(values.kept, asked)


def _share(plan: Plan, tried: Tried, chosen: Chosen) -> Fraction:
    """The share of the asked combinations that a choice keeps; open ranges count whole."""
    box = system_of(tried.inputs, plan).box
    return prod((_kept(symbol, chosen, range_.count) for symbol, range_ in box.items()), start=Fraction(1))


def _single(symbol: str, chosen: Chosen, box: Mapping[str, Range]) -> bool:
    """Whether a symbol that was asked to take several values has one."""
    values = chosen.sets.get(symbol)
    return values is not None and values.single is not None and symbol in box and box[symbol].single is None


def _bound(plan: Plan, tried: Tried, chosen: Chosen) -> int:
    """How many symbols were asked to take several values and have one, or those of another."""
    box = system_of(tried.inputs, plan).box
    return sum(_single(symbol, chosen, box) for symbol in box) + len(_joined_by_branch(tried, plan))


def _joined_by_branch(tried: Tried, plan: Plan) -> list[str]:
    """Dims with a Dim of their own that became another's where Python asked ``h == w``, and has another way."""
    found = []
    for join in tried.joins:
        frame = join.stack.best
        line = frame if frame is None or frame.inside is None else frame.inside
        roots = {plan.leaves[site].root or site for site in join.sites if site in plan.leaves}
        if line is not None and len(roots) > 1 and BRANCH.match(line.code) and not only_refuses(line):
            found.append(join.sites[0])
    return found


def _values(dim: InputDim, chosen: Chosen) -> str:
    symbols = sorted(free_symbols(dim.expr) & chosen.sets.keys())
    return ", ".join(chosen.sets[symbol].describe(dim.site) for symbol in symbols) or "others determine it"
