"""What is known of a network's sizes: ranges of its symbols and conditions that the program's guards ensure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache

from trtdiag.shapes.shape_constraints import Ask, Demand, elements
from trtdiag.symbolic import (
    Condition,
    Expr,
    Num,
    Range,
    Relation,
    Sym,
    bounds,
    compare,
    floordiv,
    free_symbols,
    holds,
    implied,
    mod,
    mul,
    sub,
    substitute,
)
from trtdiag.symbolic.bounds import rounded_bounds
from trtdiag.symbolic.build import ONE
from trtdiag.symbolic.conditions import Tree
from trtdiag.symbolic.expr import Compare, Mul, Pow, Truth
from trtdiag.symbolic.shared_symbols import related, tied_groups

_LIMIT_S = 1.0
"""Own choice: for z3, where two sizes of several symbols are neither equal by their form nor by trying them."""


class ShapeConstraints:
    """Answers questions about sizes, each once.

    Args:
        ranges: Of every symbol.
        given: Conditions that hold for every input the network is run with (guards of the program).
        definitions: What a symbol is made of, where its own name says too little: ``d0`` is ``(h - 1)//8 + 1``.  Sizes
            keep their symbol; proofs look through it.  A symbol without a range of its own has the one that follows.

    Raises:
        ValueError: A symbol is defined by itself.
    """

    def __init__(
        self,
        ranges: Mapping[str, Range],
        given: Sequence[Condition] = (),
        definitions: Mapping[str, Expr] | None = None,
    ) -> None:
        self.given = tuple(given)
        self.definitions = dict(definitions or {})
        self._expanded = _resolved(self.definitions)
        follow = {name: rounded_bounds(expr, ranges) for name, expr in self._expanded.items()}
        self.ranges = {**ranges, **{name: ranges.get(name, Range()).intersect(own) for name, own in follow.items()}}
        narrowed: list[Condition] = []
        for name, own in follow.items():
            low, high = self.ranges[name].min, self.ranges[name].max
            narrowed += [compare(Relation.GE, self._expanded[name], low)] if low not in (None, own.min) else []
            narrowed += [compare(Relation.LE, self._expanded[name], high)] if high not in (None, own.max) else []
        self._premises = tuple(self._premise(condition) for condition in (*self.given, *narrowed))
        self._same = _representatives(self._premises)
        self._proven = cache(self._shown)

    def for_another(self) -> ShapeConstraints:
        """The same for another network, which may add conditions of its own; what is shown of one is shown of both."""
        return copy(self)

    def same_as(self, name: str, size: Expr) -> Sym:
        """A new symbol that is always equal to a size: a condition of the network, which nothing has shown."""
        self.ranges = {**self.ranges, name: bounds(size, self.ranges).range}
        self.require_equal(Sym(name), size)
        return Sym(name)

    def require_equal(self, left: Expr, right: Expr) -> None:
        """Make it a condition of the network, which a run checks, that two sizes are equal; nothing has shown it."""
        condition = compare(Relation.EQ, left, right)
        self.given = (*self.given, condition)
        self._premises = (*self._premises, self._premise(condition))
        self._same = _representatives(self._premises)
        self._proven = cache(self._shown)  # the old answers may be another network's, too

    def expanded(self, node: Tree) -> Tree:
        """``node`` with defined symbols replaced by what they are made of, in normal form."""
        return substitute(node, self._expanded) if free_symbols(node) & self._expanded.keys() else node

    def about(self, names: frozenset[str]) -> tuple[frozenset[str], tuple[Condition, ...], dict[str, Expr]]:
        """What proofs about sizes of these symbols rest on: all symbols, conditions and definitions that they reach."""
        while True:
            reached = names.union(*(free_symbols(self.definitions[name]) for name in names & self.definitions.keys()))
            given = tuple(condition for condition in self.given if free_symbols(condition) & reached)
            reached |= free_symbols_of(given)
            if reached == names:
                return names, given, {name: self.definitions[name] for name in sorted(names & self.definitions.keys())}
            names = reached

    def equal(self, left: Expr, right: Expr) -> bool:
        """Whether both are proven to be the same for all sizes; a difference and a doubt are both no."""
        if left == right:
            return True
        distance = sub(left, right)
        if isinstance(distance, Num):
            return distance.value == 0
        if self._equal_factors(left, right):
            return True
        left, right = self.expanded(left), self.expanded(right)
        if self._same and sub(substitute(left, self._same), substitute(right, self._same)) == Num(0):
            return True
        return self._proven(compare(Relation.EQ, left, right))

    def _premise(self, condition: Condition) -> Condition:
        """A given condition as proofs use it: over symbols without a definition, an equation without common factors.

        A factor of both sides goes only where it is 1 or more.
        """
        condition = self.expanded(condition)
        if not isinstance(condition, Compare) or condition.relation is not Relation.EQ:
            return condition
        left, right = _factors([condition.left]), _factors([condition.right])
        for factor in list(right):
            low = bounds(factor, self.ranges).range.min
            if factor in left and low is not None and low >= 1:
                left.remove(factor)
                right.remove(factor)
        return compare(Relation.EQ, elements(left), elements(right))

    def _equal_factors(self, left: Expr, right: Expr) -> bool:
        """Whether two products agree factor by factor: each has few symbols, where the products have many."""
        ones, others = _factors([left]), _factors([right])
        if len(ones) < 2 or len(ones) != len(others):
            return False
        for one in ones:
            same = next((other for other in others if self.equal(one, other)), None)
            if same is None:
                return False
            others.remove(same)
        return True

    def _shown(self, condition: Condition) -> bool:
        if isinstance(condition, Truth):
            return condition.value
        names = free_symbols(condition)
        given = related(self._premises, names)
        for step in (0, 1, 7):
            point = {name: self._near_min(name, step) for name in names | free_symbols_of(given)}
            if all(holds(other, point) for other in given) and not holds(condition, point):
                return False
        result = implied(condition, given, self.ranges, limit_s=_LIMIT_S)
        return result.verdict == "holds" and result.proof.proven

    def _near_min(self, name: str, step: int) -> int:
        range_ = self.ranges.get(name, Range(0, None))
        value = (range_.min or 0) + step
        return value if value in range_ else (range_.max or 0)

    def at_least(self, expr: Expr, least: int) -> bool:
        """Whether ``expr`` is proven to be ``least`` or more."""
        low = bounds(expr, self.ranges).range.min
        if low is not None and low >= least:
            return True
        full = self.expanded(expr)
        more_is_known = full != expr or bool(related(self._premises, free_symbols(full)))
        return more_is_known and self._proven(compare(Relation.GE, full, least))

    def never_at_least(self, expr: Expr, least: int) -> bool:
        """Whether ``expr`` is below ``least`` for all sizes: an error that needs no run to show."""
        high = bounds(expr, self.ranges).range.max
        if high is not None and high < least:
            return True
        full = self.expanded(expr)
        high = bounds(full, self.ranges).range.max if full != expr else None
        return high is not None and high < least

    def broadcast(self, left: Expr, right: Expr) -> Expr | None:
        """The size of two dims of one layer: equal ones, or one that is 1; ``None`` where neither is proven."""
        if left == ONE:
            return right
        if right == ONE or self.equal(left, right):
            return left
        return None

    def fulfils(self, demand: Demand) -> bool:
        """Whether two sizes are proven to stand to each other as is asked; which of several ways must be proven, too.

        "Equal, or one is 1" gives a shape only where it is known which.
        """
        left, right = demand.left, demand.right
        match demand.ask:
            case Ask.EQUAL:
                return self.equal(left, right)
            case Ask.ALIKE:
                return self.broadcast(left, right) is not None
            case Ask.REPEATS:
                return left == ONE or self.equal(left, right)
            case Ask.AT_MOST:
                return self.at_least(sub(right, left), 0)
            case Ask.MULTIPLE:
                return left == right or self.equal(mod(left, right), Num(0))

    def quotient(self, whole: Sequence[Expr], parts: Sequence[Expr]) -> Expr | None:
        """The size that completes ``parts`` to as many elements as ``whole``; ``None`` where none is proven to."""
        top, bottom = _cancelled(whole, parts)
        if bottom == Num(0):
            return None
        result = floordiv(top, bottom)
        return result if self.equal(mul(result, bottom), top) else None

    def same_count(self, one: Sequence[Expr], other: Sequence[Expr]) -> bool:
        """Whether tensors of these shapes have equally many elements."""
        return self.equal(*_cancelled(one, other))


def _representatives(premises: Sequence[Condition]) -> dict[str, Expr | int]:
    """For each symbol that is equal to another by the premises, one that stands for all of them."""
    pairs = [
        (condition.left.name, condition.right.name)
        for condition in premises
        if isinstance(condition, Compare) and condition.relation is Relation.EQ
        if isinstance(condition.left, Sym) and isinstance(condition.right, Sym)
    ]
    return {
        name: Sym(group[0][0]) for group in tied_groups(pairs, lambda pair: pair) for pair in group for name in pair
    }


def _resolved(definitions: Mapping[str, Expr]) -> dict[str, Expr]:
    """Each definition over symbols that have none."""
    found = dict(definitions)
    for _ in definitions:
        found = {name: substitute(expr, definitions) for name, expr in found.items()}
    circular = sorted(name for name, expr in found.items() if free_symbols(expr) & definitions.keys())
    if circular:
        raise ValueError(f"{', '.join(circular)} cannot be defined by itself")
    return found


def free_symbols_of(nodes: Sequence[Expr | Condition]) -> frozenset[str]:
    """The symbols of all sizes or conditions."""
    return frozenset().union(*(free_symbols(node) for node in nodes))


def _cancelled(whole: Sequence[Expr], parts: Sequence[Expr]) -> tuple[Expr, Expr]:
    """Both products without their common factors."""
    left, right = _factors(whole), _factors(parts)
    for factor in list(right):
        if factor in left and factor != Num(0):  # of nothing, every other factor is a divisor
            left.remove(factor)
            right.remove(factor)
    return elements(left), elements(right)


def _factors(sizes: Sequence[Expr]) -> list[Expr]:
    """The factors of a product other than 1, powers written out."""
    found: list[Expr] = []
    waiting = list(sizes)
    while waiting:
        size = waiting.pop()
        if isinstance(size, Mul):
            waiting.extend(size.args)
        elif isinstance(size, Pow) and isinstance(size.exponent, Num) and isinstance(size.exponent.value, int):
            waiting.extend([size.base] * size.exponent.value)
        elif size != ONE:
            found.append(size)
    return found
