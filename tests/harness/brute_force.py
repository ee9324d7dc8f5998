"""The most combinations that Dims can keep, found by trying every product of progressions over small ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from trtdiag.symbolic import Range, Sym, free_symbols, holds_array
from trtdiag.symbolic.conditions import all_of
from trtdiag.symbolic.expr import Compare, Condition, Relation

Mask = npt.NDArray[np.bool_]


def best_box(conditions: Sequence[Condition], box: Mapping[str, Range], example: Mapping[str, int]) -> int:
    """The most combinations that any product of progressions around the example keeps, every one of them allowed.

    A size that an equation ``x == f(others)`` gives follows the others: it has no progression of its own, and counts
    as often as theirs.

    Args:
        conditions: What must hold.
        box: Symbol -> its asked range, both ends closed; a few million points together at most.
        example: A value of each symbol at which all conditions hold.
    """
    names = list(box)
    mask = allowed_points(conditions, box)
    followers = _followers(conditions, names)
    roots = [name for name in names if name not in followers]
    axes = tuple(names.index(name) for name in followers)
    places = [example[name] - (box[name].min or 0) for name in roots]
    if not mask[tuple(example[name] - (box[name].min or 0) for name in names)]:
        return 0
    mask = mask.any(axis=axes)  # an equation leaves one value, or none, of each follower
    return max(1, _best(mask, places, 1, 0))


def best_product(mask: Mask, places: Sequence[int]) -> int:
    """The most cells of any product of progressions through ``places``, one index an axis, all of them true."""
    return _best(mask, places, 1, 1) if mask[tuple(places)] else 0


def allowed_points(conditions: Sequence[Condition], box: Mapping[str, Range]) -> Mask:
    """Which points of the box satisfy everything, one axis for each symbol in its order."""
    axes = [np.arange(range_.min or 0, (range_.max or 0) + 1) for range_ in box.values()]
    grids = dict(zip(box, np.meshgrid(*axes, indexing="ij", sparse=True), strict=True))
    shape = tuple(len(axis) for axis in axes)
    used = free_symbols(all_of(conditions)) if conditions else frozenset()
    held = holds_array(all_of(conditions), {name: grids[name] for name in used}) if conditions else True
    return np.array(np.broadcast_to(np.asarray(held), shape))


def _followers(conditions: Sequence[Condition], names: Sequence[str]) -> list[str]:
    """Symbols that an equation gives by others, none of which is given by another equation."""
    found: list[str] = []
    used: set[str] = set()
    for condition in conditions:
        if not isinstance(condition, Compare) or condition.relation is not Relation.EQ:
            continue
        for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
            if not isinstance(side, Sym) or side.name in free_symbols(other) or side.name in {*used, *found}:
                continue
            if side.name in names and free_symbols(other) and free_symbols(other).isdisjoint(found):
                found.append(side.name)
                used |= free_symbols(other)
                break
    return found


def _best(mask: Mask, places: Sequence[int], factor: int, best: int) -> int:
    """The most cells of any product of progressions through ``places``, times ``factor``, where above ``best``."""
    if not places:
        return max(best, factor)
    if mask.ndim == 1:
        return max(best, factor * _longest(mask, places[0]))
    line = mask[(slice(None), *places[1:])]
    rest = prod(_reachable(mask, axis, places) for axis in range(1, mask.ndim))
    lines = _lines(line, places[0])
    lines.sort(key=lambda part: -len(range(*part.indices(len(line)))))
    for part in lines:
        count = len(range(*part.indices(len(line))))
        if factor * count * rest <= best:
            break
        best = _best(mask[part].all(axis=0), places[1:], factor * count, best)
    return best


def _reachable(mask: Mask, axis: int, places: Sequence[int]) -> int:
    """How many cells are true along an axis through the example: no product has more there."""
    return int(mask[tuple(slice(None) if index == axis else place for index, place in enumerate(places))].sum())


def _lines(line: Mask, place: int) -> list[slice]:
    """Every progression through ``place`` whose cells are all true."""
    count = len(line)
    found = [slice(place, place + 1)]
    for step in range(1, count):
        low = high = place
        lows, highs = [place], [place]
        while low - step >= 0 and line[low - step]:
            low -= step
            lows.append(low)
        while high + step < count and line[high + step]:
            high += step
            highs.append(high)
        found += [slice(a, b + 1, step) for a in lows for b in highs if a != b]
    return found


def _longest(line: Mask, place: int) -> int:
    return max(len(range(*part.indices(len(line)))) for part in _lines(line, place)) if line[place] else 0
