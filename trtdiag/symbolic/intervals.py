"""Sound intervals of expressions over a box, and how much they can change from one value of a symbol to the next.

An interval holds every value that the expression takes where it is defined; its ends need not be reached.  ``None`` is
an open end.  The change (``Intervals.step``) shows monotonicity that single terms do not: ``h - h//2`` never falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial, reduce
from math import ceil, floor, trunc

from trtdiag.symbolic.build import Number, sub
from trtdiag.symbolic.ends import (
    ANY,
    Ends,
    divided,
    flipped,
    floor_divided,
    greatest,
    hull,
    least,
    meet,
    outwards,
    plus,
    remainder,
    rounded,
    spread,
    times,
    to_power,
    undecided_change,
)
from trtdiag.symbolic.evaluate import compiled_expr
from trtdiag.symbolic.expr import (
    Add,
    Ceil,
    Compare,
    Condition,
    Expr,
    Floor,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Num,
    Pow,
    Relation,
    Sym,
    TrueDiv,
    Trunc,
    Where,
)
from trtdiag.symbolic.float_factors import HALF, as_float, computes_with_quotient
from trtdiag.symbolic.fold import Fold
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import free_symbols, is_integer

_ZERO: Ends = (0, 0)
MOST_PRODUCT_RULE = 8  # powers beyond this are not taken apart to see how they change


class Intervals(Fold[Ends, "bool | None"]):
    """Intervals and steps of expressions over one box, each computed once."""

    def __init__(self, box: Mapping[str, Range]) -> None:
        super().__init__()
        self.box = box
        self._steps: dict[tuple[Expr, str], Ends] = {}

    def decide(self, condition: Condition) -> bool | None:
        """Whether ``condition`` is true (or false) wherever it is defined; ``None`` where this is not seen."""
        return self.condition(condition)

    def direction(self, expr: Expr, symbol: str) -> int | None:
        """1 where ``expr`` never falls as ``symbol`` grows, -1 where it never rises, ``None`` where neither is seen."""
        low, high = self.step(expr, symbol)
        if low is not None and low >= 0:
            return 1
        return -1 if high is not None and high <= 0 else None

    def step(self, expr: Expr, symbol: str) -> Ends:
        """Ends of ``expr(symbol + 1) - expr(symbol)``, the other symbols being the same."""
        if symbol not in free_symbols(expr):
            return _ZERO
        key = (expr, symbol)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = meet(self._change(expr, symbol), spread(self.expr(expr)))
        return found

    def compute(self, expr: Expr) -> Ends:
        """See ``Fold``."""
        match expr:
            case FloorDiv(left, right):
                found = floor_divided(self.expr(left), self.expr(right), integral=is_integer(right))
            case Mod(left, right):
                integral = is_integer(left) and is_integer(right)
                found = remainder(self.expr(left), self.expr(right), integral=integral)
            case Pow(base, exponent):
                found = to_power(self.expr(base), self.expr(exponent))
            case _:
                found = super().compute(expr)
        if found[0] != found[1] and _repeats(expr):
            # The same symbol in several terms: the plain interval is loose, monotone corners are not.
            self.known[expr] = found
            found = meet(found, self._corners(expr))
        return found

    def condition(self, condition: Condition) -> bool | None:
        """See ``Fold``."""
        if isinstance(condition, Compare):
            return decided(condition.relation, self.expr(sub(condition.left, condition.right)))
        return super().condition(condition)

    add = staticmethod(plus)
    mul = staticmethod(times)
    divide = staticmethod(divided)
    least = staticmethod(least)
    greatest = staticmethod(greatest)
    negated = staticmethod(flipped)
    floor = staticmethod(partial(rounded, rounding=floor))
    trunc = staticmethod(partial(rounded, rounding=trunc))
    as_float = staticmethod(partial(rounded, rounding=as_float))

    def number(self, value: Number) -> Ends:
        """See ``Fold``."""
        return value, value

    def symbol(self, name: str) -> Ends:
        """See ``Fold``."""
        found = self.box.get(name)
        return ANY if found is None else (found.min, found.max)

    def where(self, holds: bool | None, _fails: bool | None, then: Ends, otherwise: Ends) -> Ends:
        """See ``Fold``."""
        return hull(then, otherwise) if holds is None else then if holds else otherwise

    def truth(self, value: bool) -> bool:
        """See ``Fold``."""
        return value

    def both(self, left: bool | None, right: bool | None) -> bool | None:
        """See ``Fold``."""
        return False if False in (left, right) else None if None in (left, right) else True

    def either(self, left: bool | None, right: bool | None) -> bool | None:
        """See ``Fold``."""
        return True if True in (left, right) else None if None in (left, right) else False

    def _corners(self, expr: Expr) -> Ends:
        lows: dict[str, int] = {}
        highs: dict[str, int] = {}
        for name in free_symbols(expr):
            direction = self.direction(expr, name)
            low, high = self.symbol(name)
            if direction is None or low is None or high is None:
                return ANY
            lows[name], highs[name] = (int(low), int(high)) if direction > 0 else (int(high), int(low))
        get = compiled_expr(expr)
        try:
            return get(lows), get(highs)
        except (ZeroDivisionError, OverflowError):
            return ANY

    def _change(self, expr: Expr, symbol: str) -> Ends:
        if computes_with_quotient(expr):
            return ANY  # floats of a product that is always 64 go up and down
        match expr:
            case Sym():
                return 1, 1
            case Add(args):
                return reduce(plus, (self.step(arg, symbol) for arg in args))
            case Mul(args):
                return self._product_change([(self.expr(arg), self.step(arg, symbol)) for arg in args])
            case Pow(base, Num(count)) if isinstance(count, int) and 1 <= count <= MOST_PRODUCT_RULE:
                return self._product_change([(self.expr(base), self.step(base, symbol))] * count)
            case Pow(base, Num(exponent)) if exponent == HALF:
                low, high = self.step(base, symbol)
                return (
                    (0, None) if low is not None and low >= 0 else (None, 0 if high is not None and high <= 0 else None)
                )
            case Min(args) | Max(args):
                return reduce(hull, (self.step(arg, symbol) for arg in args))
            case Floor(arg) | Ceil(arg) | Trunc(arg):
                return outwards(self.step(arg, symbol))
            case FloorDiv(left, right) | TrueDiv(left, right):
                return self._quotient_change(left, right, symbol, whole=isinstance(expr, FloorDiv))
            case Mod(left, Num(divisor)) if divisor > 0 and is_integer(left):
                return self._remainder_change(left, int(divisor), symbol)
            case Where(condition, then, otherwise):
                verdict = self.condition(condition)
                return ANY if verdict is None else self.step(then if verdict else otherwise, symbol)
            case _:
                return ANY

    @staticmethod
    def _product_change(factors: list[tuple[Ends, Ends]]) -> Ends:
        value, change = factors[0]
        for other, other_change in factors[1:]:
            # u'v' - uv = u (v' - v) + v' (u' - u)
            change = plus(times(value, other_change), times(other, change))
            value = times(value, other)
        return change

    def _quotient_change(self, left: Expr, right: Expr, symbol: str, *, whole: bool) -> Ends:
        bottom, top_change = self.expr(right), self.step(left, symbol)
        if bottom[0] is None or bottom[0] <= 0:
            return ANY
        if symbol not in free_symbols(right):
            change = divided(top_change, bottom)
            return outwards(change) if whole else change
        return undecided_change(self.expr(left), top_change, self.step(right, symbol))

    def _remainder_change(self, left: Expr, divisor: int, symbol: str) -> Ends:
        low, high = self.expr(left)
        change = self.step(left, symbol)
        if low is not None and high is not None and low // divisor == high // divisor:
            return change
        first, last = change
        wraps = (
            None if last is None else -divisor * ceil(Fraction(last) / divisor),
            None if first is None else -divisor * floor(Fraction(first) / divisor),
        )
        return plus(change, wraps)


def _repeats(expr: Expr) -> bool:
    """Whether a symbol occurs in more than one operand."""
    match expr:
        case Add(args) | Mul(args) | Min(args) | Max(args):
            return sum(len(free_symbols(arg)) for arg in args) > len(free_symbols(expr))
        case FloorDiv(left, right) | TrueDiv(left, right) | Mod(left, right):
            return not free_symbols(left).isdisjoint(free_symbols(right))
        case _:
            return False


def decided(relation: Relation, difference: Ends) -> bool | None:
    """Whether a difference within these ends stands in ``relation`` to zero; ``None`` where some may and some not."""
    low, high = difference
    if relation in (Relation.EQ, Relation.NE):
        if low == high == 0:
            return relation is Relation.EQ
        apart = (low is not None and low > 0) or (high is not None and high < 0)
        return relation is Relation.NE if apart else None
    least, most = (low, high) if relation in (Relation.GE, Relation.GT) else (high, low)
    if least is not None and relation.holds(least, 0):
        return True
    return False if most is not None and not relation.holds(most, 0) else None
