"""The sizes at which programs are compared: corners of all ranges, the example, and odd values in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from trtdiag.dims.unequal_points import end_or
from trtdiag.frontend.program import Program
from trtdiag.symbolic import Condition, Range, ValueSet, allowed, evaluate, free_symbols, holds
from trtdiag.symbolic.nearby import nearest_fitting
from trtdiag.symbolic.size_names import named_sizes
from trtdiag.verification.facts import Point

MOST_CORNER_SYMBOLS = 3
"""Symbols whose corners are all combined: 8 points.  Of more, each is moved alone, from all at their least."""
PRIMES_BETWEEN = 2
STEPS_BACK = 5
"""Points tried between one that is too large and one that is not; the last is a thirty-second of the way off."""

Elements = Callable[[Mapping[str, int]], "int | None"]
"""The elements of all tensors of the program at sizes: what its time and memory grow with."""

Box = tuple[str, Mapping[str, Range], Mapping[str, int]]
"""A part of the ranges by its name: the range and the usual size of each symbol."""


def input_ranges(program: Program) -> dict[str, Range]:
    """The range of each symbol of the inputs, of integers that may vary, too; one without has no upper end."""
    exprs = [dim.expr for tensor in program.inputs for dim in tensor.dims]
    exprs += [tensor.number for tensor in program.inputs if tensor.number is not None]
    symbols = {name for expr in exprs for name in free_symbols(expr)}
    return {name: program.ranges.get(name, Range(1, None)) for name in sorted(symbols)}


def points(ranges: Mapping[str, Range], example: Mapping[str, int], given: Sequence[Condition]) -> tuple[Point, ...]:
    """The points of a program, each once: the example first.

    A corner that a guard does not allow is replaced by the allowed point next to it.  A symbol without an end in a
    direction takes its example there.

    Args:
        ranges: Of each symbol of the inputs.
        example: Sizes of the example; a symbol without one takes its least value.
        given: The conditions that every input of the program satisfies.
    """
    names = sorted(ranges)
    middle = {name: _inside(ranges[name], example.get(name)) for name in names}
    found: dict[tuple[int, ...], Point] = {}
    for label, wanted in _wanted(ranges, middle, given):
        sizes = _allowed_near(wanted, ranges, given)
        if sizes is not None:
            key = tuple(sizes[name] for name in names)
            found.setdefault(key, Point(label, sizes, moved=sizes != dict(wanted)))
    return tuple(found.values())


def points_of(
    ranges: Mapping[str, Range], example: Mapping[str, int], given: Sequence[Condition], boxes: Sequence[Box]
) -> tuple[Point, ...]:
    """The points of each part of the ranges, each once; of all of them where there are no parts.

    Args:
        ranges: As for ``points``.
        example: As for ``points``.
        given: As for ``points``.
        boxes: The parts; the usual sizes of each are its example.
    """
    if not boxes:
        return points(ranges, example, given)
    found: dict[tuple[int, ...], Point] = {}
    for name, box, usual in boxes:
        part = {symbol: own.intersect(box.get(symbol, own)) for symbol, own in ranges.items()}
        for point in points(part, usual, given):
            label = f"{name}: {'tuned for' if point.label == 'example' else point.label}"
            found.setdefault(tuple(point.sizes[symbol] for symbol in sorted(ranges)), replace(point, label=label))
    return tuple(found.values())


def nearer(
    point: Point,
    base: Mapping[str, int],
    ranges: Mapping[str, Range],
    given: Sequence[Condition],
    boxes: Sequence[Box] = (),
) -> Iterator[Point]:
    """Yield points on the way from a point that is too large back to one that is not, each half as far away.

    Args:
        point: The point.
        base: The sizes that are not too large, those of the example as a rule.
        ranges: As for ``points``.
        given: As for ``points``.
        boxes: Parts of the ranges, where not all of them are taken.
    """
    for halved in range(1, STEPS_BACK + 1):
        wanted = {name: base[name] + ((size - base[name]) >> halved) for name, size in point.sizes.items()}
        sizes = _allowed_near(wanted, ranges, given)
        if sizes is not None and (not boxes or any(_inside_box(sizes, box) for _, box, _ in boxes)):
            yield Point(f"towards {point.label}", sizes, moved=sizes != wanted)


def _inside_box(sizes: Mapping[str, int], box: Mapping[str, Range]) -> bool:
    return all(size in box[name] for name, size in sizes.items() if name in box)


def running_order(points: Sequence[Point], cost: Callable[[Point], int]) -> list[int]:
    """In which order points are compared where the time may not be enough for all, as their places.

    The example comes first, then the cheapest; then each end of each range where it costs least, but for the costliest
    point, which is the last; between them the others, cheap ones first.

    Args:
        points: The example first.
        cost: What a point costs beside others.
    """
    costs = [cost(point) for point in points]
    first, *rest = sorted(range(len(points)), key=lambda index: (index > 0, costs[index]))
    order, last = [first, *rest[:1]], rest[1:][-1:]
    ends = {
        (name, choose(size for point in points if (size := point.sizes.get(name)) is not None))
        for name in points[first].sizes
        for choose in (min, max)
    }
    reached = {end for index in order for end in points[index].sizes.items()}
    early = []
    for index in rest[1:-1]:
        if ends & {*points[index].sizes.items()} - reached:
            early.append(index)
            reached |= {*points[index].sizes.items()}
    return [*order, *early, *(index for index in rest[1:-1] if index not in early), *last]


def point_sizes(sizes: Mapping[str, int], names: Mapping[str, str]) -> str:
    """``batch=1, h=640``; ``names`` are for symbols."""
    return ", ".join(sorted(f"{name}={size}" for name, size in named_sizes(sizes, names).items()))


def _inside(range_: Range, value: int | None) -> int:
    low = range_.min if range_.min is not None else 1
    value = low if value is None else max(low, value)
    return value if range_.max is None else min(value, range_.max)


def _wanted(
    ranges: Mapping[str, Range], middle: Mapping[str, int], given: Sequence[Condition]
) -> Iterator[tuple[str, Mapping[str, int]]]:
    names = sorted(ranges)
    yield "example", middle
    if not names:
        return
    alone = {name: _alone(name, ranges[name], given) for name in names}
    least = {name: end_or(alone[name].min, middle[name]) for name in names}
    greatest = {name: end_or(alone[name].max, middle[name]) for name in names}
    ends = {name: (("min", least[name]), ("max", greatest[name])) for name in names}
    yield "min", least
    yield "max", greatest
    if len(names) <= MOST_CORNER_SYMBOLS:
        for corner in product(*(ends[name] for name in names)):
            label = ", ".join(f"{name} {end}" for name, (end, _) in zip(names, corner, strict=True))
            yield label, {name: value for name, (_, value) in zip(names, corner, strict=True)}
    else:
        for name in names:
            yield f"{name} max", {**least, name: greatest[name]}
            yield f"{name} min", {**greatest, name: least[name]}
    for index in range(PRIMES_BETWEEN):
        between = {
            name: _odd(least[name], greatest[name], index + place, alone[name]) for place, name in enumerate(names)
        }
        yield "in between", between


def _alone(name: str, range_: Range, given: Sequence[Condition]) -> ValueSet:
    """The values that the conditions on this symbol alone allow."""
    own = [condition for condition in given if free_symbols(condition) == {name}]
    return allowed(own, name, range_).values


def _odd(low: int, high: int, index: int, values: ValueSet) -> int:
    """A value strictly inside, prime where the conditions take one, else the allowed one next to it."""
    if high - low < 2:
        return low
    from sympy import isprime  # on first use: with it comes all of sympy

    start = low + (high - low) * (index % 3 + 1) // 4
    tried = sorted(range(max(low + 1, start - 64), min(high, start + 65)), key=lambda value: abs(value - start))
    fitting = [value for value in tried if value in values]
    return next((value for value in fitting if isprime(value)), fitting[0] if fitting else start)


def _allowed_near(
    wanted: Mapping[str, int], ranges: Mapping[str, Range], given: Sequence[Condition]
) -> dict[str, int] | None:
    """``wanted`` itself, or the allowed point next to it; ``None`` where none is near."""
    sizes = dict(wanted)
    known = [condition for condition in given if free_symbols(condition) <= sizes.keys()]
    if all(holds(condition, sizes) for condition in known):
        return sizes
    if not sizes:
        return None
    try:
        return nearest_fitting(known, ranges, sizes)
    except OverflowError:
        return None


def elements_of(shapes: Sequence[Any]) -> Elements:
    """The elements of all tensors of these sizes (``Expr`` volumes); ``None`` where a symbol has no number."""

    def count(sizes: Mapping[str, int]) -> int | None:
        try:
            return sum(int(evaluate(volume, sizes)) for volume in shapes)
        except KeyError:
            return None

    return count
