"""Other example sizes: where the given ones made a dim a constant, or led down a path for few sizes only."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from trtdiag.capture.program import InputDim
from trtdiag.dims.asked_ranges import dims_in, system_of
from trtdiag.dims.plan import Plan
from trtdiag.dims.solver.chosen import Chosen
from trtdiag.fixdims.fix import Alternative
from trtdiag.fixdims.pins import PinnedGroup, group_of, other_sizes, pinned_groups
from trtdiag.fixdims.tried import Tried
from trtdiag.symbolic import free_symbols

if TYPE_CHECKING:
    from trtdiag.fixdims.loop import Search

COLLAPSED = Fraction(1, 50)
"""A dim that keeps less than this share because of a Python condition is worth an export with another example.

Own choice: a range rounded to a multiple keeps more for every step up to 50, and the fixed size of a position table, a
hard-coded resolution, keeps less.
"""
WORTH_MOVING = 10
"""How many times the combinations another example must keep: the user's own is given up for it."""


class OtherExamples:
    """Exports with other examples, for one search."""

    def __init__(self, search: Search) -> None:
        self.search = search

    def for_pinned(self, plan: Plan, tried: Tried) -> tuple[Plan, Tried]:
        """The plan with an example that makes fewer dims a constant, and its try; the given ones where none does."""
        search = self.search
        groups = pinned_groups(tried, plan, {**search.examples, **plan.sizes})
        if not groups:
            return plan, tried
        search.moved_pinned = True
        best, left = (plan, tried), {group.key for group in groups}
        for sizes in other_sizes(groups, plan):
            moved = replace(plan, sizes=sizes)
            again = self._attempt(moved, plan)
            if again is None:
                continue
            still = {group.key for group in pinned_groups(again, moved, {**search.examples, **sizes})}
            if len(still) < len(left):
                best, left = (moved, again), still
            if not still:
                break
        for group in groups:
            done = group.key not in left
            search.notebook.pinned(group, tried, moved=best[0].sizes.get(group.sites[0]) if done else None)
        kept = {site: size for site, size in best[0].sizes.items() if self._needed(site, size, best[0], left)}
        return replace(best[0], sizes=kept), best[1]

    def _attempt(self, moved: Plan, plan: Plan) -> Tried | None:
        shown = ", ".join(f"{site} = {size}" for site, size in moved.sizes.items() if plan.sizes.get(site) != size)
        again = self.search.attempt(moved, f"with another example: {shown}")
        return None if isinstance(again, str) or not again.finished else again

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
        for sizes in other_sizes(groups, plan):
            moved = replace(plan, sizes=sizes)
            again = self._attempt(moved, plan)
            if again is None or pinned_groups(again, moved, {**search.examples, **sizes}):
                continue
            answer = search.chosen(again, system_of(again.inputs, moved))
            if answer.conflict is None and _share(moved, again, answer) >= WORTH_MOVING * share:
                for group in groups:
                    self._note(group, tried, chosen, plan)
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
        """Dims that keep hardly anything because of a Python condition, or nothing but the example."""
        box = system_of(tried.inputs, plan).box
        found: dict[str, list[str]] = {}
        for dim, leaf in dims_in(tried.inputs, plan):
            symbols = free_symbols(dim.expr)
            blamed = [c for s in symbols for c in chosen.narrowed_by.get(s, ())]
            branches = [c for c in blamed if c in tried.conditions and tried.conditions[c].branch]
            narrow = any(_kept(s, chosen, box[s].count) < COLLAPSED for s in symbols if s in box)
            alone = any(s in chosen.sets and chosen.sets[s].single is not None for s in symbols)
            if narrow and (branches or (alone and blamed)):
                found.setdefault(leaf.root or dim.site, []).append(dim.site)
        examples = {**self.search.examples, **plan.sizes}
        return [group_of(key, [(site, examples[site]) for site in sites], plan) for key, sites in found.items()]


def _kept(symbol: str, chosen: Chosen, asked: int | None) -> Fraction:
    values = chosen.sets.get(symbol)
    if values is None or values.kept is None or asked is None or asked == 0:
        return Fraction(1)
    return Fraction(values.kept, asked)


def _share(plan: Plan, tried: Tried, chosen: Chosen) -> Fraction:
    """The share of the asked combinations that a choice keeps; open ranges count whole."""
    share = Fraction(1)
    for symbol, range_ in system_of(tried.inputs, plan).box.items():
        share *= _kept(symbol, chosen, range_.count)
    return share


def _values(dim: InputDim, chosen: Chosen) -> str:
    symbols = sorted(free_symbols(dim.expr) & chosen.sets.keys())
    return ", ".join(chosen.sets[symbol].describe(dim.site) for symbol in symbols) or "others determine it"
