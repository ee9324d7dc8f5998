"""Sound intervals of expressions over a box, and how much they can change from one value of a symbol to the next.

An interval holds every value that the expression takes where it is defined; its ends need not be reached.  ``None`` is
an open end.  The change (``Intervals.step``) shows monotonicity that single terms do not: ``h - h//2`` never falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor, trunc

from trtdiag.symbolic.build import Number, sub
from trtdiag.symbolic.ends import (
    ANY,
    Ends,
    divided,
    floor_divided,
    hull,
    meet,
    plus,
    remainder,
    spread,
    times,
    to_power,
    undecided_change,
)
from trtdiag.symbolic.evaluate import compiled_expr
from trtdiag.symbolic.expr import (
    Add,
    And,
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
    Not,
    Num,
    Or,
    Pow,
    Relation,
    Sym,
    TrueDiv,
    Trunc,
    Truth,
    Where,
)
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import free_symbols, is_integer

_ZERO: Ends = (0, 0)
MOST_PRODUCT_RULE = 8  # powers beyond this are not taken apart to see how they change


class Intervals:
    """Intervals and steps of expressions over one box, each computed once."""

    def __init__(self, box: Mapping[str, Range]) -> None:
        self.box = box
        self._values: dict[Expr, Ends] = {}
        self._steps: dict[tuple[Expr, str], Ends] = {}

    def of(self, expr: Expr) -> Ends:
        """Ends between which all values lie."""
        found = self._values.get(expr)
        if found is None:
            found = self._plain(expr)
            if found[0] != found[1] and _repeats(expr):
                # The same symbol in several terms: the plain interval is loose, monotone corners are not.
                self._values[expr] = found
                found = meet(found, self._corners(expr))
            self._values[expr] = found
        return found

    def decide(self, condition: Condition) -> bool | None:
        """Whether ``condition`` is true (or false) wherever it is defined; ``None`` where this is not seen."""
        match condition:
            case Truth(value):
                return value
            case Compare(relation, left, right):
                return _decided(relation, self.of(sub(left, right)))
            case And(args):
                verdicts = [self.decide(arg) for arg in args]
                return False if False in verdicts else (None if None in verdicts else True)
            case Or(args):
                verdicts = [self.decide(arg) for arg in args]
                return True if True in verdicts else (None if None in verdicts else False)
            case Not(arg):
                verdict = self.decide(arg)
                return None if verdict is None else not verdict

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
            found = self._steps[key] = meet(self._change(expr, symbol), spread(self.of(expr)))
        return found

    def _range(self, name: str) -> Ends:
        found = self.box.get(name)
        return ANY if found is None else (found.min, found.max)

    def _plain(self, expr: Expr) -> Ends:
        match expr:
            case Num(value):
                return value, value
            case Sym(name):
                return self._range(name)
            case Add(args):
                total = self.of(args[0])
                for arg in args[1:]:
                    total = plus(total, self.of(arg))
                return total
            case Mul(args):
                total = self.of(args[0])
                for arg in args[1:]:
                    total = times(total, self.of(arg))
                return total
            case FloorDiv(left, right):
                return floor_divided(self.of(left), self.of(right), integral=is_integer(right))
            case TrueDiv(left, right):
                return divided(self.of(left), self.of(right))
            case Mod(left, right):
                return remainder(self.of(left), self.of(right), integral=is_integer(left) and is_integer(right))
            case Pow(base, exponent):
                return to_power(self.of(base), self.of(exponent))
            case Min(args) | Max(args):
                return _extreme([self.of(arg) for arg in args], least=isinstance(expr, Min))
            case Floor(arg):
                return _rounded(self.of(arg), floor)
            case Ceil(arg):
                return _rounded(self.of(arg), ceil)
            case Trunc(arg):
                return _rounded(self.of(arg), trunc)
            case Where(condition, then, otherwise):
                verdict = self.decide(condition)
                if verdict is None:
                    return hull(self.of(then), self.of(otherwise))
                return self.of(then if verdict else otherwise)

    def _corners(self, expr: Expr) -> Ends:
        lows: dict[str, int] = {}
        highs: dict[str, int] = {}
        for name in free_symbols(expr):
            direction = self.direction(expr, name)
            low, high = self._range(name)
            if direction is None or low is None or high is None:
                return ANY
            lows[name], highs[name] = (int(low), int(high)) if direction > 0 else (int(high), int(low))
        get = compiled_expr(expr)
        try:
            return get(lows), get(highs)
        except (ZeroDivisionError, OverflowError):
            return ANY

    def _change(self, expr: Expr, symbol: str) -> Ends:
        match expr:
            case Sym():
                return 1, 1
            case Add(args):
                total = _ZERO
                for arg in args:
                    if symbol in free_symbols(arg):
                        total = plus(total, self.step(arg, symbol))
                return total
            case Mul(args):
                return self._product_change([(self.of(arg), self.step(arg, symbol)) for arg in args])
            case Pow(base, Num(count)) if isinstance(count, int) and 1 <= count <= MOST_PRODUCT_RULE:
                return self._product_change([(self.of(base), self.step(base, symbol))] * count)
            case Min(args) | Max(args):
                changes = [self.step(arg, symbol) for arg in args]
                total = changes[0]
                for change in changes[1:]:
                    total = hull(total, change)
                return total
            case Floor(arg) | Ceil(arg) | Trunc(arg):
                low, high = self.step(arg, symbol)
                return None if low is None else floor(low), None if high is None else ceil(high)
            case FloorDiv(left, right) | TrueDiv(left, right):
                return self._quotient_change(left, right, symbol, whole=isinstance(expr, FloorDiv))
            case Mod(left, Num(divisor)) if divisor > 0 and is_integer(left):
                return self._remainder_change(left, int(divisor), symbol)
            case Where(condition, then, otherwise):
                verdict = self.decide(condition)
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
        bottom, top_change = self.of(right), self.step(left, symbol)
        if bottom[0] is None or bottom[0] <= 0:
            return ANY
        if symbol not in free_symbols(right):
            low, high = divided(top_change, bottom)
            if not whole:
                return low, high
            return None if low is None else floor(low), None if high is None else ceil(high)
        return undecided_change(self.of(left), top_change, self.step(right, symbol))

    def _remainder_change(self, left: Expr, divisor: int, symbol: str) -> Ends:
        low, high = self.of(left)
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


def _rounded(ends: Ends, rounding: object) -> Ends:
    low, high = ends
    assert callable(rounding)
    return None if low is None else rounding(low), None if high is None else rounding(high)


def _extreme(parts: list[Ends], *, least: bool) -> Ends:
    pick = min if least else max
    lows = [low for low, _ in parts if low is not None]
    highs = [high for _, high in parts if high is not None]
    # The least of several is open below if any is, and open above only if all are; the greatest the other way round.
    low: Number | None = pick(lows) if lows and (len(lows) == len(parts) or not least) else None
    high: Number | None = pick(highs) if highs and (len(highs) == len(parts) or least) else None
    return low, high


def _decided(relation: Relation, difference: Ends) -> bool | None:
    low, high = difference
    above, below = low is not None and low > 0, high is not None and high < 0
    match relation:
        case Relation.EQ | Relation.NE:
            if above or below:
                return relation is Relation.NE
            return (relation is Relation.EQ) if low == high == 0 else None
        case Relation.GE:
            return True if low is not None and low >= 0 else (False if below else None)
        case Relation.GT:
            return True if above else (False if high is not None and high <= 0 else None)
        case Relation.LE:
            return True if high is not None and high <= 0 else (False if above else None)
        case Relation.LT:
            return True if below else (False if low is not None and low >= 0 else None)
