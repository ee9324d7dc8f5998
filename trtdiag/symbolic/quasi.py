"""Exact algebra of one-symbol expressions over any range, open ones included.

Substitute ``h = P*t + r``.  For a suitable period ``P`` every ``//`` and ``%`` by a number turns an integer
polynomial in ``t`` into another one, for each residue ``r`` on its own.  Whatever depends on which of two values is
larger (``min``, ``max``, ``where``, comparisons, division by an expression) is decided by the sign of a polynomial,
and signs change at finitely many ``t``: so an expression is a list of pieces, ``t`` from ``low`` to ``high`` with one
polynomial for each residue.  ``P`` grows on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd
from typing import Any

import numpy as np

from trtdiag.symbolic import polynomials as ps
from trtdiag.symbolic.conditions import negate, normalise
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
from trtdiag.symbolic.polynomials import EnlargeError, Flags, NotApplicableError, Poly, Vector
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.roots import sign_changes

MOST_PERIOD = 1 << 16
MOST_PIECES = 1 << 12
MOST_POINTS = 1 << 12  # how many single ``t`` a piece may be split into
_COMMON_POLYNOMIALS = 1 << 10  # residues with polynomials of degree two and more, each searched for roots


@dataclass(frozen=True, slots=True)
class Piece:
    """``t`` from ``low`` to ``high`` (``None``: open), and the polynomials there."""

    low: int | None
    high: int | None
    value: Poly


@dataclass(frozen=True, slots=True)
class Region:
    """``t`` from ``low`` to ``high``, and for which residues a condition holds there."""

    low: int | None
    high: int | None
    flags: Flags


def expression_pieces(expr: Expr, range_: Range) -> tuple[int, list[Piece]]:
    """The period and the pieces of an expression of one symbol over ``range_``.

    Raises:
        NotApplicableError: The algebra does not cover it, or not within its limits.
    """
    return _with_period(lambda algebra: algebra.expr(expr), range_)


def condition_regions(condition: Condition, range_: Range) -> tuple[int, list[Region]]:
    """The period and the regions of a condition on one symbol over ``range_``; raises like ``expression_pieces``."""
    return _with_period(lambda algebra: algebra.condition(condition), range_)


def _with_period(solve: Callable[[_Algebra], Any], range_: Range) -> tuple[int, Any]:
    period = 1
    while period <= MOST_PERIOD:
        try:
            return period, solve(_Algebra(period, range_))
        except EnlargeError as error:
            period *= error.factor
    raise NotApplicableError(f"its period is larger than {MOST_PERIOD}")


class _Algebra:
    """Computes pieces for one period."""

    def __init__(self, period: int, range_: Range) -> None:
        self.period = period
        self.low = None if range_.min is None else range_.min // period
        self.high = None if range_.max is None else range_.max // period
        self.known: dict[Expr, list[Piece]] = {}

    def expr(self, expr: Expr) -> list[Piece]:
        found = self.known.get(expr)
        if found is None:
            found = self.known[expr] = self.compute(expr)
            if len(found) > MOST_PIECES:
                raise NotApplicableError(f"it falls into more than {MOST_PIECES} pieces")
        return found

    def whole(self, value: Poly) -> list[Piece]:
        return [Piece(self.low, self.high, value)]

    def compute(self, expr: Expr) -> list[Piece]:
        match expr:
            case Num(value):
                return self.whole(ps.constant(value.numerator, self.period, value.denominator))
            case Sym():
                offsets: Vector = np.arange(self.period).astype(object)
                return self.whole(Poly((offsets, np.full(self.period, self.period, dtype=object))))
            case Add(args):
                return reduce(lambda a, b: _zip(a, b, ps.add), map(self.expr, args))
            case Mul(args):
                return reduce(lambda a, b: _zip(a, b, ps.mul), map(self.expr, args))
            case Pow(base, Num(count)) if isinstance(count, int) and 0 <= count <= ps.MOST_DEGREE:
                factors = [self.expr(base)] * count
                return reduce(lambda a, b: _zip(a, b, ps.mul), factors, self.whole(ps.constant(1, self.period)))
            case Min(args):
                return reduce(lambda a, b: self.extreme(a, b, Relation.LE), map(self.expr, args))
            case Max(args):
                return reduce(lambda a, b: self.extreme(a, b, Relation.GE), map(self.expr, args))
            case FloorDiv(left, right):
                return self.quotient(self.expr(left), self.expr(right))
            case Mod(left, right):
                top, bottom = self.expr(left), self.expr(right)
                product = _zip(bottom, self.quotient(top, bottom), ps.mul)
                return _zip(top, _negated(product), ps.add)
            case Floor(TrueDiv(left, right)):
                return self.quotient(self.expr(left), self.expr(right))
            case Ceil(TrueDiv(left, right)):
                return _negated(self.quotient(_negated(self.expr(left)), self.expr(right)))
            case Floor(arg):
                return _floored(self.expr(arg))
            case Ceil(arg):
                return _negated(_floored(_negated(self.expr(arg))))
            case Trunc(arg):
                inner = self.expr(arg)
                up, down = _negated(_floored(_negated(inner))), _floored(inner)
                return self.pick(self.signs(inner, Relation.GE), down, up)
            case Where(condition, then, otherwise):
                return self.where(condition, then, otherwise)
            case _:
                raise NotApplicableError(f"{type(expr).__name__} of this form is not covered")

    def condition(self, condition: Condition) -> list[Region]:
        match condition:
            case Truth(value):
                return [Region(self.low, self.high, np.full(self.period, value, dtype=bool))]
            case Compare(relation, left, right):
                return self.signs(_zip(self.expr(left), _negated(self.expr(right)), ps.add), relation)
            case And(args):
                return reduce(lambda a, b: _zip_regions(a, b, np.logical_and), map(self.condition, args))
            case Or(args):
                return reduce(lambda a, b: _zip_regions(a, b, np.logical_or), map(self.condition, args))
            case Not():
                return self.condition(normalise(condition))

    def where(self, condition: Condition, then: Expr, otherwise: Expr) -> list[Piece]:
        holds, fails = self.condition(condition), self.condition(negate(condition))
        picked = self.pick(holds, self.expr(then), self.expr(otherwise))
        decided = _zip_regions(holds, fails, np.logical_or)
        result: list[Piece] = []
        for low, high, (region, piece) in _overlaps(decided, picked):
            defined = None if region.flags.all() else region.flags
            result.append(Piece(low, high, replace(piece.value, defined=ps.both(piece.value.defined, defined))))
        return result

    def signs(self, pieces: list[Piece], relation: Relation) -> list[Region]:
        regions: list[Region] = []
        for piece in pieces:
            for low, high in _cut(piece.low, piece.high, _changes(piece.value, piece.low, piece.high)):
                flags = _compare_zero(_signs_at(piece.value, _inside(low, high)), relation)
                if piece.value.defined is not None:
                    flags = flags & piece.value.defined
                regions.append(Region(low, high, flags))
        return regions

    def extreme(self, left: list[Piece], right: list[Piece], relation: Relation) -> list[Piece]:
        difference = _zip(left, _negated(right), ps.add)
        picked = self.pick(self.signs(difference, relation), left, right)
        result: list[Piece] = []
        # Both operands must be defined, whichever is taken.
        for low, high, (piece, both) in _overlaps(picked, difference):
            result.append(Piece(low, high, replace(piece.value, defined=both.value.defined)))
        return result

    @staticmethod
    def pick(regions: list[Region], then: list[Piece], otherwise: list[Piece]) -> list[Piece]:
        result: list[Piece] = []
        for low, high, (region, first, second) in _overlaps(regions, then, otherwise):
            result.append(Piece(low, high, ps.choose(region.flags, first.value, second.value)))
        return result

    def quotient(self, top: list[Piece], bottom: list[Piece]) -> list[Piece]:
        result: list[Piece] = []
        for low, high, (first, second) in _overlaps(top, bottom):
            result.extend(self.divide(low, high, first.value, second.value))
        return result

    def divide(self, low: int | None, high: int | None, top: Poly, bottom: Poly) -> list[Piece]:
        if bottom.degree == 0:
            return [Piece(low, high, _divide_constant(top, bottom))]
        pieces: list[Piece] = []
        for start, stop in _cut(low, high, _changes(bottom, low, high)):
            signs = _signs_at(bottom, _inside(start, stop))
            flips = Poly((np.where(signs < 0, -1, 1).astype(object),))
            zero = signs == 0
            steady_top = ps.mul(top, flips)
            steady_bottom = ps.choose(zero, ps.constant(1, self.period), ps.mul(bottom, flips))
            for piece in self.divide_positive(start, stop, steady_top, steady_bottom):
                defined = ps.both(piece.value.defined, None if not zero.any() else ~zero)
                defined = ps.both(defined, ps.both(top.defined, bottom.defined))
                pieces.append(Piece(piece.low, piece.high, replace(piece.value, defined=defined)))
        return pieces

    def divide_positive(self, low: int | None, high: int | None, top: Poly, bottom: Poly) -> list[Piece]:
        """``top // bottom`` where ``bottom > 0``: a polynomial quotient, and a rest that decides the last unit."""
        if low is not None and low == high:
            return [Piece(low, high, _divide_constant(ps.at(top, low), ps.at(bottom, low)))]
        quotient, rest = _long_division(top, bottom)
        missing = ps.add(rest, ps.scaled(bottom, -1))
        over = ps.add(rest, bottom)
        cuts = sorted({cut for value in (rest, missing, over) for cut in _changes(value, low, high)})
        pieces: list[Piece] = []
        for start, stop in _cut(low, high, cuts):
            inside = _inside(start, stop)
            rest_sign = _signs_at(rest, inside)
            zero = (rest_sign >= 0) & (_signs_at(missing, inside) < 0)
            minus = (rest_sign < 0) & (_signs_at(over, inside) >= 0)
            if bool((zero | minus).all()):
                unit = Poly((np.where(zero, 0, -1).astype(object),))
                pieces.append(Piece(start, stop, ps.add(quotient, unit)))
            else:
                pieces.extend(self.by_points(start, stop, top, bottom))
        return pieces

    @staticmethod
    def by_points(low: int | None, high: int | None, top: Poly, bottom: Poly) -> list[Piece]:
        if low is None or high is None or high - low >= MOST_POINTS:
            raise NotApplicableError("a quotient of two sizes is no polynomial over a long stretch")
        return [Piece(t, t, _divide_constant(ps.at(top, t), ps.at(bottom, t))) for t in range(low, high + 1)]


def _overlaps(*lists: Any) -> Any:
    """The pieces of several lists over common stretches: (low, high, one piece of each)."""
    indexes = [0] * len(lists)
    low = lists[0][0].low
    while True:
        current = [pieces[index] for pieces, index in zip(lists, indexes, strict=True)]
        highs = [piece.high for piece in current if piece.high is not None]
        high = min(highs) if highs else None
        yield low, high, current
        indexes = [i + (piece.high == high) for i, piece in zip(indexes, current, strict=True)]
        if any(index == len(pieces) for index, pieces in zip(indexes, lists, strict=True)):
            return
        low = high + 1 if high is not None else None


def _zip(left: list[Piece], right: list[Piece], join: Callable[[Poly, Poly], Poly]) -> list[Piece]:
    return [Piece(low, high, join(a.value, b.value)) for low, high, (a, b) in _overlaps(left, right)]


def _zip_regions(left: list[Region], right: list[Region], join: Callable[[Flags, Flags], Flags]) -> list[Region]:
    return [Region(low, high, join(a.flags, b.flags)) for low, high, (a, b) in _overlaps(left, right)]


def _negated(pieces: list[Piece]) -> list[Piece]:
    return [Piece(piece.low, piece.high, ps.scaled(piece.value, -1)) for piece in pieces]


def _floored(pieces: list[Piece]) -> list[Piece]:
    ones: Vector = np.ones(len(pieces[0].value.coefficients[0]), dtype=int).astype(object)
    return [Piece(piece.low, piece.high, ps.floordiv_vector(piece.value, ones)) for piece in pieces]


def _cut(low: int | None, high: int | None, cuts: list[int]) -> list[tuple[int | None, int | None]]:
    lows: list[int | None] = [low, *cuts]
    highs: list[int | None] = [*(cut - 1 for cut in cuts), high]
    return list(zip(lows, highs, strict=True))


def _inside(low: int | None, high: int | None) -> int:
    if low is not None:
        return low
    return 0 if high is None else high


def _signs_at(value: Poly, point: int) -> Vector:
    return np.sign(ps.at(value, point).coefficients[0])


def _compare_zero(signs: Vector, relation: Relation) -> Flags:
    match relation:
        case Relation.EQ:
            flags = signs == 0
        case Relation.NE:
            flags = signs != 0
        case Relation.LT:
            flags = signs < 0
        case Relation.LE:
            flags = signs <= 0
        case Relation.GT:
            flags = signs > 0
        case Relation.GE:
            flags = signs >= 0
    return np.asarray(flags, dtype=bool)


def _changes(value: Poly, low: int | None, high: int | None) -> list[int]:
    """All ``t`` in ``low < t <= high`` where the sign of the polynomial of some residue changes."""
    if value.degree == 0 or (low is not None and low == high):
        return []
    cuts: set[int] = set()
    if value.degree == 1:
        moving = value.coefficients[1] != 0
        constants, slopes = value.coefficients[0][moving], value.coefficients[1][moving]
        cuts.update((-(constants // slopes)).tolist(), ((-constants) // slopes + 1).tolist())
    else:
        rows = set(zip(*(part.tolist() for part in value.coefficients), strict=True))
        if len(rows) > _COMMON_POLYNOMIALS:
            raise NotApplicableError(f"{len(rows)} polynomials of degree {value.degree} would be searched for roots")
        for row in rows:
            cuts.update(sign_changes(row, low, high))
    found = sorted(cut for cut in cuts if (low is None or cut > low) and (high is None or cut <= high))
    if len(found) > MOST_PIECES:
        raise NotApplicableError(f"it falls into more than {MOST_PIECES} pieces")
    return found


def _divide_constant(top: Poly, bottom: Poly) -> Poly:
    divisors = bottom.coefficients[0]
    zero = divisors == 0
    signs = np.where(divisors < 0, -1, 1).astype(object)
    safe = np.where(zero, 1, divisors * signs)
    flipped = ps.poly([part * signs * bottom.scale for part in top.coefficients], top.scale, top.defined)
    result = ps.floordiv_vector(flipped, safe)
    defined = ps.both(ps.both(top.defined, bottom.defined), None if not zero.any() else np.asarray(~zero, dtype=bool))
    return replace(result, defined=defined)


def _long_division(top: Poly, bottom: Poly) -> tuple[Poly, Poly]:
    """``top == quotient * bottom + rest`` with an integer quotient and a rest that is smaller for large ``t``."""
    period = len(top.coefficients[0])
    top, bottom = _common_scale(top, bottom)
    lead = bottom.coefficients[-1]
    if not bool((lead != 0).all()):
        raise NotApplicableError("the divisors of some residues grow faster than those of others")
    rest = top
    total = ps.constant(0, period)
    for power in range(top.degree - bottom.degree, -1, -1):
        if rest.degree < power + bottom.degree:
            continue
        head = rest.coefficients[power + bottom.degree]
        if power > 0 and (head % lead).any():
            raise EnlargeError(max(abs(d) // gcd(int(c), int(d)) for c, d in zip(head, lead, strict=True)))
        share: list[Vector] = [np.zeros(period, dtype=object) for _ in range(power)]
        step = ps.poly([*share, head // lead])
        total = ps.add(total, step)
        rest = ps.add(rest, ps.scaled(ps.mul(step, bottom), -1))
    return total, rest


def _common_scale(left: Poly, right: Poly) -> tuple[Poly, Poly]:
    """Both multiplied by the same number so that neither has a denominator."""
    factors = right.scale, left.scale
    return tuple(  # type: ignore[return-value]
        ps.poly([part * factor for part in side.coefficients], 1, side.defined)
        for side, factor in zip((left, right), factors, strict=True)
    )
