"""Sizes to run a program at: small, allowed by its conditions, and different wherever they may be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod

from trtdiag.symbolic import Range, ValueSet, allowed, free_symbols, holds, sub, substitute
from trtdiag.symbolic.build import linear_terms
from trtdiag.symbolic.conditions import TRUE
from trtdiag.symbolic.expr import Compare, Condition, Relation, Sym
from trtdiag.symbolic.nearby import nearest_fitting
from trtdiag.symbolic.shared_symbols import related
from trtdiag.symbolic.smt import find

Point = dict[str, int]
OPEN_END = 4
"""Where a symbol has no largest value: how many times its example is taken for it."""
MOST_ALONE = 6
"""Symbols of which each is moved alone to its least value."""
_LOOKED_THROUGH = 200
_MOST_NEARBY = 7
"""Symbols whose neighbourhood is searched as a whole; of more, z3 is asked."""
_SEARCH_LIMIT_S = 0.5


class UnequalPoints:
    """Points of a box that satisfy conditions.

    Args:
        box: Range of each symbol.
        conditions: What every point must satisfy; symbols that they set equal stay equal.
        hints: Values in the example.
        avoid: Sizes that no symbol should have if it can be helped: those of dims that are no symbol.
    """

    def __init__(
        self,
        box: Mapping[str, Range],
        conditions: Sequence[Condition],
        hints: Mapping[str, int],
        avoid: Collection[int] = (),
    ) -> None:
        self._first = _equal_symbols(box, conditions)
        self._box: dict[str, Range] = {}
        for symbol, first in self._first.items():
            range_ = box[symbol].intersect(Range(0, None))
            self._box[first] = range_.intersect(self._box.get(first, Range()))
        names = {symbol: Sym(first) for symbol, first in self._first.items()}
        known = [condition for condition in conditions if free_symbols(condition) <= box.keys()]
        self._conditions = [each for c in known if (each := substitute(c, names)) != TRUE]
        self._values = {name: self._alone(name) for name in self._box}
        self._hints, self._avoid = hints, frozenset(avoid)

    @property
    def free(self) -> list[str]:
        """One symbol of each group of equal ones that can take several values."""
        return [name for name, values in self._values.items() if values.single is None and not values.is_empty]

    def unequal(self, above: int = 1) -> Iterator[Point]:
        """Yield small values beyond ``above``, each different from every other: in one order of the symbols, and back.

        So each of two symbols is the larger one once, where their ranges allow it.
        """
        for names in (list(self._box), list(self._box)[::-1]):
            point = self._fitted(self._one_after_another(names, above))
            if point is not None:
                yield point

    def at_ends(self, base: Point) -> Iterator[Point]:
        """Yield all symbols at their least, each alone at a least of 0 or 1 with the others as in ``base``."""
        least = {name: end_or(values.min, base[name]) for name, values in self._values.items()}
        wanted = [least]
        low = [name for name, value in least.items() if value < 2 and value != base[name]]
        wanted += [{**_of(base, self._box), name: least[name]} for name in low if len(low) <= MOST_ALONE]
        for point in wanted:
            fitted = self._fitted(point)
            if fitted is not None:
                yield fitted

    def greatest(self) -> Point | None:
        """All symbols at their greatest; of those without an end, four times the example."""
        most = {
            name: end_or(values.max, max(OPEN_END * self._hints.get(name, 1), values.min or 1))
            for name, values in self._values.items()
        }
        return self._fitted(most)

    def between(self, low: Point, high: Point) -> Point | None:
        """The allowed point in the middle of two."""
        return self._fitted({name: (low[name] + high[name]) // 2 for name in self._box})

    def every(self, most: int) -> list[Point] | None:
        """All points; ``None`` where the symbols have more values than ``most``, all taken together."""
        counts = [values.count for values in self._values.values()]
        if None in counts or prod(count or 0 for count in counts) > most:
            return None
        members = (values.members(most) for values in self._values.values())
        points = (dict(zip(self._values, values, strict=True)) for values in product(*members))
        return [self._whole(point) for point in points if self._allows(point)]

    def moved(self, base: Point, symbol: str, value: int) -> Point | None:
        """``base`` with another value of one symbol and its equals; ``None`` where the conditions do not take it."""
        point = {**_of(base, self._box), self._first[symbol]: value}
        return self._whole(point) if self._allows(point) else None

    def _alone(self, name: str) -> ValueSet:
        own = [condition for condition in self._conditions if free_symbols(condition) == {name}]
        return allowed(own, name, self._box[name]).values if own else ValueSet.full(self._box[name])

    def _one_after_another(self, names: Sequence[str], least: int) -> Point:
        point: Point = {}
        for name in names:
            values = self._values[name]
            high = values.max
            above = [value for value in point.values() if high is None or value < high]
            point[name] = self._next(name, max([*above, least]) + 1, point)
        return point

    def _next(self, name: str, start: int, point: Point) -> int:
        """The first allowed prime from ``start`` on that nothing else has, else the first allowed value that is left.

        Where the others are known, it is one with which the conditions on them hold.
        """
        values, taken = self._values[name], set(point.values())
        known = point.keys() | {name}
        asked = [c for c in self._conditions if name in free_symbols(c) <= known and len(free_symbols(c)) > 1]
        for begin, prime in ((start, True), (start, False), (2, False)):
            value = values.at_least(begin)
            for _ in range(_LOOKED_THROUGH):
                if value is None:
                    break
                free = value not in taken and value not in self._avoid and (not prime or _is_prime(value))
                if free and all(holds(condition, {**point, name: value}) for condition in asked):
                    return value
                value = values.at_least(value + 1)
        return end_or(values.min, 1) if values.max is None else values.max

    def _allows(self, point: Point) -> bool:
        return all(point[name] in self._values[name] for name in point) and all(
            holds(condition, point) for condition in self._conditions
        )

    def _fitted(self, point: Point) -> Point | None:
        """The point itself or one near it that the conditions allow, over all symbols; ``None`` where none is found."""
        if self._allows(point):
            return self._whole(point)
        names = self._tied_to_broken(point)
        if not names:
            return None
        fixed = {name: value for name, value in point.items() if name not in names}
        wanted = [substitute(c, fixed) for c in self._conditions if free_symbols(c) & names]
        ranges = {name: Range(self._values[name].min, self._values[name].max) for name in names}
        start = {name: point[name] for name in sorted(names)}
        near: Mapping[str, int] | None = None
        if len(names) <= _MOST_NEARBY:
            near = nearest_fitting(wanted, ranges, start)
        near = near or find(wanted, ranges, _SEARCH_LIMIT_S).model
        if near is None:
            return None
        found = {**point, **{name: value for name, value in near.items() if name in names}}
        return self._whole(found) if self._allows(found) else None

    def _tied_to_broken(self, point: Point) -> set[str]:
        """The symbols of what does not hold, and of what shares symbols with it."""
        names = {name for name in point if point[name] not in self._values[name]}
        names |= {name for c in self._conditions if not holds(c, point) for name in free_symbols(c)}
        for condition in related(self._conditions, frozenset(names)):
            names |= free_symbols(condition)
        return names

    def _whole(self, point: Point) -> Point:
        return {symbol: point[first] for symbol, first in self._first.items()}


def _equal_symbols(box: Mapping[str, Range], conditions: Sequence[Condition]) -> dict[str, str]:
    """Symbol -> the first of those that it is equal to."""
    first = {symbol: symbol for symbol in box}
    for condition in conditions:
        if not isinstance(condition, Compare) or condition.relation is not Relation.EQ:
            continue
        terms, constant = linear_terms(sub(condition.left, condition.right))
        names = [rest.name for _, rest in terms if isinstance(rest, Sym)]
        plain = {factor for factor, _ in terms} == {1, -1} and constant == 0
        if len(names) == 2 == len(terms) and plain and set(names) <= box.keys():
            one, other = (first[name] for name in names)
            first = {symbol: one if of == other else of for symbol, of in first.items()}
    return first


def _of(point: Point, names: Collection[str]) -> Point:
    return {name: value for name, value in point.items() if name in names}


def end_or(end: int | None, otherwise: int) -> int:
    """An end of a range, and another size where it is open."""
    return otherwise if end is None else end


def _is_prime(value: int) -> bool:
    return value > 2 and all(value % divisor for divisor in range(2, int(value**0.5) + 1))
