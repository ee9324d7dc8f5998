"""Which steps are worth trying, and every combination of them, those that could keep most first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, nlargest, nsmallest

from trtdiag.dims.solver.runs import numbers_in
from trtdiag.dims.solver.volume import volume, words
from trtdiag.symbolic import Progression, Range
from trtdiag.symbolic.expr import Condition

MOST_DIVIDED = 1 << 14
MOST_STEPS = 32
LARGEST = 4
SHORT = 64  # ranges of so few values have every step tried
EVERYTHING = Range()
MOST_COMBINATIONS = 1 << 11


def steps_of(conditions: Iterable[Condition], range_: Range = EVERYTHING) -> tuple[int, ...]:
    """The numbers in ``conditions`` and their divisors, the small ones and the largest; every step of a short range."""
    numbers = set().union(*(numbers_in(condition) for condition in conditions))
    found = set(numbers)
    for number in numbers:
        if number <= MOST_DIVIDED:
            found.update(step for step in range(2, number + 1) if number % step == 0)
    count = range_.count
    short = range(2, count) if count is not None and count <= SHORT else ()
    return tuple(sorted({2, *nsmallest(MOST_STEPS, found), *nlargest(LARGEST, numbers), *short}))


def combined(columns: Mapping[str, Sequence[Progression]]) -> Iterator[dict[str, Progression]]:
    """One run of each column, all combinations, those that keep most first; about ``MOST_COMBINATIONS`` at most.

    Args:
        columns: The runs to choose from for each parameter; none may be empty.
    """
    names = list(columns)
    ordered = [sorted(columns[name], key=lambda run: (volume({"": run}), words({"": run}))) for name in names]

    def at(places: tuple[int, ...]) -> dict[str, Progression]:
        return {name: column[place] for name, column, place in zip(names, ordered, places, strict=True)}

    first = (0,) * len(names)
    waiting = [((volume(at(first)), words(at(first))), first)]
    seen = {first}
    given = 0
    while waiting and given < MOST_COMBINATIONS:
        _, places = heappop(waiting)
        given += 1
        yield at(places)
        for index in range(len(names)):
            following = (*places[:index], places[index] + 1, *places[index + 1 :])
            if following[index] < len(ordered[index]) and following not in seen:
                seen.add(following)
                heappush(waiting, ((volume(at(following)), words(at(following))), following))
