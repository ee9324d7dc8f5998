"""Example sizes inside the asked ranges: torch refuses an example outside before it traces anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trtdiag.dims.plan import Plan
from trtdiag.dims.solver_input import asked_range
from trtdiag.fixdims.fix import Reason
from trtdiag.fixdims.notes import Notebook
from trtdiag.symbolic.ranges import Range

MOST_STARTS = 3


def starting_plans(plan: Plan, examples: Mapping[str, int], notebook: Notebook) -> list[Plan]:
    """``plan`` as it is where every example lies inside, else with other example sizes, likeliest first."""
    outside = [sites for sites in plan.groups().values() if any(_outside(site, plan, examples) for site in sites)]
    movable = [(sites, sizes) for sites in outside if (sizes := list(_sizes(sites[0], plan, examples)))]
    if not movable:
        return [plan]
    for site in (site for sites, _ in movable for site in sites):
        note = notebook.of(site)
        note.kind = "example"
        shown = asked_range(plan.leaves[site], plan)
        text = f"the example's size {examples.get(site)} is not in the asked range {shown}"
        note.because([Reason(text, by="torch.export")])
    plans = []
    for index in range(min(MOST_STARTS, max(len(sizes) for _, sizes in movable))):
        moved = dict(plan.sizes)
        for sites, sizes in movable:
            moved.update(plan.sizes_with(sites, sizes[min(index, len(sizes) - 1)]))
        plans.append(replace(plan, sizes=moved))
    return plans


def _outside(site: str, plan: Plan, examples: Mapping[str, int]) -> bool:
    range_ = asked_range(plan.leaves[site], plan)
    return site in examples and not range_.empty and examples[site] not in range_


def _sizes(site: str, plan: Plan, examples: Mapping[str, int]) -> Iterator[int]:
    """Sizes inside the range: multiples or divisors of the example's first, for they keep what divides it."""
    leaf = plan.leaves[site]
    size, range_ = examples.get(site), asked_range(leaf, plan)
    given: set[int] = set()
    for candidate in _candidates(size or 2, range_):
        fitted = candidate + (leaf.offset - candidate) % leaf.scale
        if fitted in range_ and fitted not in given and (fitted > 1 or range_.max in (0, 1)):
            given.add(fitted)
            yield fitted


def _candidates(size: int, range_: Range) -> Iterator[int]:
    low, high = range_.min, range_.max
    if low is not None and size and size < low:
        yield -(-low // size) * size
    if high is not None and size > high:
        yield from (size // factor for factor in (2, 3, 4, 5, 6, 7, 8, 16, 32) if size % factor == 0)
    for step in (64, 32, 16, 8):
        yield -(-(low or 1) // step) * step
    yield low if low is not None else 2
    if high is not None:
        yield high
