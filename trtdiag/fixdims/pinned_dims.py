"""Dims that tracing took for a constant: which, why, and what other example sizes to try."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import findall

from trtdiag.dims.dynamic_shapes.nested_form import is_integer
from trtdiag.dims.facts import GuardOrigin
from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.dims.solver_input import asked_range, dims_in
from trtdiag.fixdims.changes import reason
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.fix import Reason
from trtdiag.grouping import grouped
from trtdiag.symbolic import Range, free_symbols
from trtdiag.symbolic.expr import Num
from trtdiag.symbolic.text import in_words

MOST_TRIES = 4


@dataclass(frozen=True)
class PinnedGroup:
    """Dims declared as one that took one value.

    Attributes:
        key: The Dim that they are made of, else their site.
        sites: Where.
        value: The size of the first of them.
        by_example: It, or the Dim that it is derived from, is 0 or 1 in the example, which torch takes for a constant;
            else a condition did it.
        others: Sizes of the first site to try instead, likeliest first.
        range: The sizes of the first site that are asked for.
    """

    key: str
    sites: tuple[str, ...]
    value: int
    by_example: bool
    others: tuple[int, ...]
    range: Range


def pinned_groups(tried: Tried, plan: Plan, examples: Mapping[str, int]) -> tuple[PinnedGroup, ...]:
    """The dims that were asked to take several sizes and have one in what was traced.

    Args:
        tried: The try.
        plan: Its plan.
        examples: Site -> the example's size in that try.
    """
    found = grouped(
        (leaf.root or dim.site, (dim.site, int(dim.expr.value)))
        for dim, leaf in dims_in(tried.inputs, plan)
        if leaf.kind is not LeafKind.STATIC and isinstance(dim.expr, Num)
    )
    return tuple(_group(key, members, tried, plan, examples) for key, members in found.items())


def _group(
    key: str, members: Sequence[tuple[str, int]], tried: Tried, plan: Plan, examples: Mapping[str, int]
) -> PinnedGroup:
    site, value = members[0]
    compared = any(pin.site in dict(members) for pin in tried.pins)
    step, offset = plan.leaves[site].scale, plan.leaves[site].offset
    own = (value - offset) // step in (0, 1) and examples.get(site, value) == value
    # Of a derived dim torch notes the root's constant as if a condition had made it.
    by_example = own and (step > 1 or not compared)
    return group_of(key, members, plan, by_example=by_example)


def zero_groups(plan: Plan, examples: Mapping[str, int]) -> tuple[PinnedGroup, ...]:
    """The Dims that are 0 in the example where a dim is a multiple of them: ``4*_b + 2`` at a size of 2.

    torch refuses such an example before it traces anything ("Expected shape[0] = 2 of input Tensor to be of the form
    4*_b + 2"; torch 2.13, ``torch.utils._sympy.solve.try_solve``).
    """
    derived = ((site, leaf) for site, leaf in plan.leaves.items() if leaf.kind is LeafKind.DIM and leaf.scale > 1)
    found = grouped((leaf.root, (site, leaf.offset)) for site, leaf in derived if examples.get(site) == leaf.offset)
    return tuple(group_of(key, members, plan, by_example=True) for key, members in found.items())


def group_of(key: str, members: Sequence[tuple[str, int]], plan: Plan, *, by_example: bool = False) -> PinnedGroup:
    """Dims of one Dim (site and size each) with the sizes to try instead."""
    site, value = members[0]
    leaf = plan.leaves[site]
    range_ = asked_range(leaf, plan)
    step, offset = leaf.scale, leaf.offset
    # Of a derived dim it is the Dim behind it that torch takes for a constant where that is 0 or 1.
    constants = {0, 1, offset, step + offset, value}
    wanted = (step * root + offset for root in (2, 3, 4, 8)) if by_example else _sizes(value)
    fitting = (size for size in wanted if size in range_ and size % step == offset % step)
    others = list(dict.fromkeys(size for size in fitting if size not in constants))
    if not others and range_.min is not None:
        first = max(range_.min, 2)
        near = range(first + (offset - first) % step, first + 4 * step, step)
        others = [size for size in near if size in range_ and size != value]
        others.sort(key=lambda size: size in constants)
    return PinnedGroup(key, tuple(site for site, _ in members), value, by_example, tuple(others[:MOST_TRIES]), range_)


def _sizes(value: int) -> Iterator[int]:
    """Sizes near the given one: multiples keep whatever divides it."""
    yield from (2 * value, value + 1, value // 2, value - 1, 3 * value)


def other_sizes(groups: Sequence[PinnedGroup], plan: Plan) -> Iterator[dict[str, int]]:
    """Example sizes by site to try: all groups at once, then each alone."""
    movable = [group for group in groups if group.others]
    longest = max((len(group.others) for group in movable), default=0)
    combinations = [
        {group.key: group.others[min(index, len(group.others) - 1)] for group in movable} for index in range(longest)
    ]
    if len(movable) > 1:
        combinations += [{group.key: group.others[0]} for group in movable]
    for choice in combinations[: MOST_TRIES + len(movable)]:
        sizes: dict[str, int] = dict(plan.sizes)
        for group in movable:
            if group.key in choice:
                sizes.update(plan.sizes_with(group.sites, choice[group.key]))
        yield sizes


def held_at_example(
    plan: Plan, tried: Tried, names: Collection[str], sizes: Mapping[str, int]
) -> dict[str, tuple[int, Reason]]:
    """What torch refuses in whatever words: site -> its size in the example, and why it is held to that.

    A condition is not read, or torch's own algebra contradicts itself.

    Args:
        plan: What was exported with.
        tried: The refused export.
        names: Of the Dims that torch names.
        sizes: Site -> the example's size.
    """
    refused, told = {definition.name for definition in plan.defs} & {*names}, {*findall(r"\w+", tried.message)}
    text = "torch.export refuses other sizes, in whatever words"
    sites = {site for site, leaf in plan.leaves.items() if leaf.root in refused}
    if tried.unread:
        unread = "; ".join(in_words(guard.text, tried.names) for guard in tried.unread[:2])
        text = f"torch.export refuses it, and a condition could not be read: {unread}"
    else:
        sites |= {dim.site for dim, _leaf in dims_in(tried.inputs, plan) if free_symbols(dim.expr) & told}
    why = Reason(text, tried.unread[0].stack if tried.unread else tried.stack, "torch.export")
    return {site: (sizes[site], why) for site in sites if site in sizes}


def pinned_integers(plan: Plan, tried: Tried) -> dict[str, tuple[int, Reason]]:
    """Integers that were asked to vary and of which tracing made a number: site -> that number, and why."""
    found = {}
    for pin in tried.pins:
        leaf = plan.leaves.get(pin.site)
        if is_integer(pin.site) and leaf is not None and leaf.kind is not LeafKind.STATIC:
            origin = GuardOrigin.traced("ShapeEnv", pin.stack, pin.op)
            found[pin.site] = pin.value, reason(f"{pin.site} == {pin.value}", origin)
    return found
