"""From the search for one declaration to several programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trtdiag.dims.plan import Plan
from trtdiag.fixdims.child_export import exported_alone
from trtdiag.fixdims.confirmation import confirmation
from trtdiag.fixdims.export_loop import Try
from trtdiag.fixdims.fix import Confirmation
from trtdiag.fixdims.programs import FixedProgram, Several
from trtdiag.fixdims.search_result import SearchResult
from trtdiag.fixdims.several_programs.admitted_sizes import taken_by_plan, view_of
from trtdiag.fixdims.several_programs.coordinates import coordinates_of
from trtdiag.fixdims.several_programs.cover import Cover, Part
from trtdiag.fixdims.several_programs.coverage import Counts
from trtdiag.fixdims.several_programs.seeds import OtherWay
from trtdiag.frontend.factory import Recipe
from trtdiag.graph.source import Stack
from trtdiag.symbolic import negate, to_text

OFFERED = 4
"""How many programs are offered where nobody said how many."""
MOST_PROGRAMS = 16
"""Counting keeps one set for each group of programs; an engine for each is more than anyone builds."""
SEARCH_LIMIT_S = 1200.0
OFFER_LIMIT_S = 10.0
"""Without exports: solving only."""
_MOST_WAYS = 3


def several_of(
    asked: Plan,
    found: SearchResult,
    examples: Mapping[str, int],
    attempt: Try | None,
    rounds: int,
    most: int,
    spelled: Callable[[Plan], tuple[Recipe, str]],
) -> Several | None:
    """Programs that together take more than the answer of ``found``; ``None`` where there are none.

    Args:
        asked: What the user asked.
        found: The confirmed search for one declaration.
        examples: Site -> the example's size.
        attempt: Exports with a plan; ``None`` offers what the known conditions allow, without any export.
        rounds: As of ``Search``.
        most: How many programs at most.
        spelled: From a plan to the recipe with it, and its code.
    """
    if found.plan is None or found.last is None or found.widest is None or not found.confirmed or found.last.unread:
        return None
    if found.last.refused or not found.proof.proven or (attempt is None and found.widest[1].unread):
        return None  # without an export nothing tells what a condition that could not be read would take away
    coordinates = coordinates_of(asked, found.widest[1].inputs)
    taken = taken_by_plan(found.last, found.plan, coordinates)
    view = view_of(found.widest[1], found.widest[0], coordinates)
    if taken is None or view is None or not any(not each.follows for each in coordinates):
        return None
    first = Counts([taken], coordinates)
    if first.asked is not None and first.of(1) == first.asked and not first.open:
        return None  # nothing is left out
    cover = Cover(
        asked=asked,
        coordinates=coordinates,
        examples=examples,
        parts=[Part(found.plan, taken, found.proof, found)],
        views=[view],
        attempt=attempt,
        rounds=rounds,
        most=most,
        limit_s=OFFER_LIMIT_S if attempt is None else SEARCH_LIMIT_S,
        determine=found.determine,
    )
    cover.search()
    notes = tuple(_notes(cover))
    if len(cover.parts) == 1 and not notes:
        return None
    counts = Counts([part.taken for part in cover.parts], coordinates)
    programs = [_program(part, counts, index, *spelled(part.plan)) for index, part in enumerate(cover.parts)]
    return Several(coordinates, tuple(programs), counts.kept((1 << len(programs)) - 1), attempt is not None, notes)


def _program(part: Part, counts: Counts, index: int, recipe: Recipe, code: str) -> FixedProgram:
    earlier = (1 << index) - 1
    own, before = counts.of(1 << index), counts.of(earlier)
    both = counts.of(earlier | 1 << index)
    sure = Confirmation(None) if part.found is None else confirmation(part.found, (), "", assumed=False)
    return FixedProgram(
        plan=part.plan,
        dynamic_shapes=recipe.dynamic_shapes,
        code=code,
        takes=part.taken,
        kept=None if own is None else counts.kept(1 << index),
        adds=None if counts.open or both is None or before is None else both - before,
        proof=part.proof,
        exported=sure.exported,
        ran=sure.ran,
        ran_on_data=sure.ran_on_data,
        not_on_data=sure.not_on_data,
        args=recipe.args,
        kwargs=recipe.kwargs,
        make_program=(lambda: exported_alone(recipe)) if sure.exported else None,
    )


def _notes(cover: Cover) -> list[str]:
    """What was not looked at."""
    names = {each.name: each.label for each in cover.coordinates}
    found = [f"more programs were not looked for: {cover.ended}"] if cover.ended else []
    ways = (_way(way, names) for way in cover.other_ways() if cover.worth_looking(way))
    return [*found, *list(dict.fromkeys(ways))[:_MOST_WAYS]]


def _way(way: OtherWay, names: Mapping[str, str]) -> str:
    """The shortest of the conditions that such sizes break: each of them alone sends sizes another way."""
    sizes, stack = min(((to_text(negate(each), names), stack) for each, stack in way.stacks.items()), key=_length)
    place = "" if stack.best is None else f" ({stack.best})"
    return f"sizes with {sizes} go another way in the model{place}: no export went there"


def _length(told: tuple[str, Stack]) -> tuple[int, str]:
    return len(told[0]), told[0]
