"""Exact algebra of one-symbol expressions over any range, open ones included.

Substitute ``h = P*t + r``.  For a suitable period ``P`` every ``//`` and ``%`` by a number turns an integer
polynomial in ``t`` into another one, for each residue ``r`` on its own.  Whatever depends on which of two values is
larger (``min``, ``max``, ``where``, comparisons, division by an expression) is decided by the sign of a polynomial,
and signs change at finitely many ``t``: so an expression is a list of pieces, ``t`` from ``low`` to ``high`` with one
polynomial for each residue.  ``P`` grows on demand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partialmethod, reduce
from typing import Any, Generic, TypeVar

import numpy as np

from trtdiag.symbolic import polynomials as ps
from trtdiag.symbolic.build import Number
from trtdiag.symbolic.expr import Ceil, Condition, Expr, Floor, Num, Relation, TrueDiv
from trtdiag.symbolic.fold import Fold
from trtdiag.symbolic.patterns import Mask
from trtdiag.symbolic.polynomials import EnlargeError, NotApplicableError, Poly, Vector, divide_constant, long_division
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.roots import sign_changes

MOST_PERIOD = 1 << 16
MOST_PIECES = 1 << 12
MOST_POINTS = 1 << 12  # how many single ``t`` a piece may be split into
_COMMON_POLYNOMIALS = 1 << 10  # residues with polynomials of degree two and more, each searched for roots
Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class Piece(Generic[Said]):
    """``t`` from ``low`` to ``high`` (``None``: open), and what is said of each residue there."""

    low: int | None
    high: int | None
    value: Said


Pieces = list[Piece[Poly]]  # of an expression
Regions = list[Piece[Mask]]  # of a condition: for which residues it holds


def expression_pieces(expr: Expr, range_: Range) -> tuple[int, Pieces]:
    """The period and the pieces of an expression of one symbol over ``range_``.

    Raises:
        NotApplicableError: The algebra does not cover it, or not within its limits.
    """
    return _with_period(lambda algebra: algebra.expr(expr), range_)


def condition_regions(condition: Condition, range_: Range) -> tuple[int, Regions]:
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


def _overlaid(act: Callable[..., Said]) -> Callable[..., list[Piece[Said]]]:
    """``act`` on what several lists of pieces say of the same stretches."""

    def overlaid(*lists: list[Piece[Any]]) -> list[Piece[Said]]:
        return [Piece(low, high, act(*(piece.value for piece in here))) for low, high, here in _overlaps(*lists)]

    return overlaid


class _Algebra(Fold[Pieces, Regions]):
    """Computes pieces for one period."""

    def __init__(self, period: int, range_: Range) -> None:
        super().__init__()
        self.period = period
        self.low = None if range_.min is None else range_.min // period
        self.high = None if range_.max is None else range_.max // period

    def compute(self, expr: Expr) -> Pieces:
        match expr:
            case Floor(TrueDiv(left, right)):
                found = self.quotient(self.expr(left), self.expr(right))
            case Ceil(TrueDiv(left, right)):
                found = self.negated(self.quotient(self.negated(self.expr(left)), self.expr(right)))
            case TrueDiv():
                raise NotApplicableError("TrueDiv of this form is not covered")
            case _:
                found = super().compute(expr)
        if len(found) > MOST_PIECES:
            raise NotApplicableError(f"it falls into more than {MOST_PIECES} pieces")
        return found

    def whole(self, value: Poly) -> Pieces:
        return [Piece(self.low, self.high, value)]

    def number(self, value: Number) -> Pieces:
        return self.whole(ps.constant(value.numerator, self.period, value.denominator))

    def symbol(self, _name: str) -> Pieces:
        offsets: Vector = np.arange(self.period).astype(object)
        return self.whole(Poly((offsets, np.full(self.period, self.period, dtype=object))))

    add = staticmethod(_overlaid(ps.add))
    mul = staticmethod(_overlaid(ps.mul))
    both = staticmethod(_overlaid(operator.and_))
    either = staticmethod(_overlaid(operator.or_))

    def negated(self, value: Pieces) -> Pieces:
        return [Piece(piece.low, piece.high, ps.scaled(piece.value, -1)) for piece in value]

    def power(self, base: Expr, exponent: Expr) -> Pieces:
        count = exponent.value if isinstance(exponent, Num) else None
        if not isinstance(count, int) or not 0 <= count <= ps.MOST_DEGREE:
            raise NotApplicableError("Pow of this form is not covered")
        return reduce(self.mul, [self.expr(base)] * count, self.number(1))

    def floor(self, value: Pieces) -> Pieces:
        ones: Vector = np.ones(self.period, dtype=int).astype(object)
        return [Piece(piece.low, piece.high, ps.floordiv_vector(piece.value, ones)) for piece in value]

    def trunc(self, value: Pieces) -> Pieces:
        return self.pick(self.signs(value, Relation.GE), self.floor(value), self.ceil(value))

    def as_float(self, value: Pieces) -> Pieces:
        raise NotApplicableError("sizes in floating point are not covered")

    def truth(self, value: bool) -> Regions:
        return [Piece(self.low, self.high, np.full(self.period, value, dtype=bool))]

    def compare(self, relation: Relation, left: Pieces, right: Pieces) -> Regions:
        return self.signs(self.add(left, self.negated(right)), relation)

    def where(self, holds: Regions, fails: Regions, then: Pieces, otherwise: Pieces) -> Pieces:
        def where_decided(flags: Mask, value: Poly) -> Poly:
            return replace(value, defined=ps.both(value.defined, None if flags.all() else flags))

        return _overlaid(where_decided)(self.either(holds, fails), self.pick(holds, then, otherwise))

    def signs(self, pieces: Pieces, relation: Relation) -> Regions:
        regions: Regions = []
        for piece in pieces:
            for part in Range(piece.low, piece.high).cut(_changes(piece.value, piece.low, piece.high)):
                flags = np.asarray(relation.holds(_signs_in(piece.value, part), 0), dtype=bool)
                if piece.value.defined is not None:
                    flags = flags & piece.value.defined
                regions.append(Piece(part.min, part.max, flags))
        return regions

    def extreme(self, left: Pieces, right: Pieces, relation: Relation) -> Pieces:
        difference = self.add(left, self.negated(right))
        picked = self.pick(self.signs(difference, relation), left, right)
        # Both operands must be defined, whichever is taken.
        return _overlaid(lambda taken, both: replace(taken, defined=both.defined))(picked, difference)

    least = partialmethod(extreme, relation=Relation.LE)
    greatest = partialmethod(extreme, relation=Relation.GE)

    @staticmethod
    def pick(regions: Regions, then: Pieces, otherwise: Pieces) -> Pieces:
        return _overlaid(ps.choose)(regions, then, otherwise)

    def quotient(self, top: Pieces, bottom: Pieces) -> Pieces:
        return [
            piece
            for low, high, (first, second) in _overlaps(top, bottom)
            for piece in self.divide(low, high, first.value, second.value)
        ]

    def divide(self, low: int | None, high: int | None, top: Poly, bottom: Poly) -> Pieces:
        if bottom.degree == 0:
            return [Piece(low, high, divide_constant(top, bottom))]
        pieces: Pieces = []
        for part in Range(low, high).cut(_changes(bottom, low, high)):
            signs = _signs_in(bottom, part)
            flips = Poly((np.where(signs < 0, -1, 1).astype(object),))
            zero = signs == 0
            steady_top = ps.mul(top, flips)
            steady_bottom = ps.choose(zero, ps.constant(1, self.period), ps.mul(bottom, flips))
            for piece in self.divide_positive(part.min, part.max, steady_top, steady_bottom):
                defined = ps.both(piece.value.defined, None if not zero.any() else ~zero)
                defined = ps.both(defined, ps.both(top.defined, bottom.defined))
                pieces.append(Piece(piece.low, piece.high, replace(piece.value, defined=defined)))
        return pieces

    def divide_positive(self, low: int | None, high: int | None, top: Poly, bottom: Poly) -> Pieces:
        """``top // bottom`` where ``bottom > 0``: a polynomial quotient, and a rest that decides the last unit."""
        if low is not None and low == high:
            return [Piece(low, high, divide_constant(ps.at(top, low), ps.at(bottom, low)))]
        quotient, rest = long_division(top, bottom)
        missing = ps.add(rest, ps.scaled(bottom, -1))
        over = ps.add(rest, bottom)
        cuts = {cut for value in (rest, missing, over) for cut in _changes(value, low, high)}
        pieces: Pieces = []
        for part in Range(low, high).cut(cuts):
            rest_sign = _signs_in(rest, part)
            zero = (rest_sign >= 0) & (_signs_in(missing, part) < 0)
            minus = (rest_sign < 0) & (_signs_in(over, part) >= 0)
            if bool((zero | minus).all()):
                unit = Poly((np.where(zero, 0, -1).astype(object),))
                pieces.append(Piece(part.min, part.max, ps.add(quotient, unit)))
            else:
                pieces.extend(self.by_points(part.min, part.max, top, bottom))
        return pieces

    @staticmethod
    def by_points(low: int | None, high: int | None, top: Poly, bottom: Poly) -> Pieces:
        if low is None or high is None or high - low >= MOST_POINTS:
            raise NotApplicableError("a quotient of two sizes is no polynomial over a long stretch")
        return [Piece(t, t, divide_constant(ps.at(top, t), ps.at(bottom, t))) for t in range(low, high + 1)]


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


def _signs_in(value: Poly, part: Range) -> Vector:
    """The signs at a point of a part in which they do not change."""
    point = next((end for end in (part.min, part.max) if end is not None), 0)
    return np.sign(ps.at(value, point).coefficients[0])


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
    found = [cut for cut in cuts if (low is None or cut > low) and (high is None or cut <= high)]
    if len(found) > MOST_PIECES:
        raise NotApplicableError(f"it falls into more than {MOST_PIECES} pieces")
    return found
