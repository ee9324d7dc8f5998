"""Exact solutions of one-symbol conditions and exact extremes of one-symbol expressions over ranges of any size."""

from __future__ import annotations

import numpy as np

from trtdiag.symbolic.conditions import normalise
from trtdiag.symbolic.expr import And, Condition, Expr, Not, Or, Truth
from trtdiag.symbolic.patterns import PatternError
from trtdiag.symbolic.polynomials import NotApplicableError, Poly
from trtdiag.symbolic.quasi_polynomials import Piece, condition_regions, expression_pieces
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.roots import extremes
from trtdiag.symbolic.stretch import Stretch
from trtdiag.symbolic.valueset import ValueSet


def solve(condition: Condition, range_: Range) -> ValueSet:
    """The values of the only symbol of ``condition`` inside ``range_`` (of any size) for which it holds.

    Raises:
        NotApplicableError: The algebra of residue classes does not cover it, or not within its limits.
    """
    if range_.empty:
        return ValueSet.nothing(range_)
    try:
        return _solve(condition, range_)
    except PatternError as error:
        raise NotApplicableError(str(error)) from error


def _solve(condition: Condition, range_: Range) -> ValueSet:
    match condition:
        case Truth(value):
            return ValueSet.full(range_) if value else ValueSet.nothing(range_)
        case And(args):
            values = ValueSet.full(range_)
            for arg in args:
                values = values.intersect(_solve(arg, range_))
            return values
        case Or(args):
            values = ValueSet.nothing(range_)
            for arg in args:
                values = values.union(_solve(arg, range_))
            return values
        case Not():
            return _solve(normalise(condition), range_)
    period, regions = condition_regions(condition, range_)
    stretches = []
    for region in regions:
        low = None if region.low is None else region.low * period
        high = None if region.high is None else region.high * period + period - 1
        stretches.append(Stretch(low, high, region.value))
    return ValueSet(range_, stretches)


Extent = tuple[int | None, int | None]


def extent(expr: Expr, range_: Range) -> Extent | None:
    """The exact least and greatest value of an integer expression of one symbol; ``None`` inside is an open end.

    The result itself is ``None`` where the expression is not defined for any value of the range.

    Raises:
        NotApplicableError: The algebra of residue classes does not cover it, or not within its limits.
    """
    period, pieces = expression_pieces(expr, range_)
    found: list[Extent] = []
    for piece in pieces:
        found.extend(_piece_extents(piece, period, range_))
    if not found:
        return None
    lows, highs = [low for low, _ in found], [high for _, high in found]
    least = None if None in lows else min(low for low in lows if low is not None)
    most = None if None in highs else max(high for high in highs if high is not None)
    return least, most


def _piece_extents(piece: Piece[Poly], period: int, range_: Range) -> list[Extent]:
    """Extremes of every residue's polynomial, for the ``t`` of the piece at which ``P*t + r`` is in the range."""
    value = piece.value
    if value.scale != 1:
        raise NotApplicableError("it is not an integer everywhere")
    residues = np.arange(period) if value.defined is None else np.flatnonzero(value.defined)
    rows = list(zip(*(part.tolist() for part in value.coefficients), strict=True))
    found: set[tuple[tuple[int, ...], Range]] = set()
    whole = Range(piece.low, piece.high)
    for residue in residues.tolist():
        inside = whole.intersect(range_.unscaled(period, residue))
        if not inside.empty:
            found.add((rows[residue], inside))
    return [extremes(row, inside.min, inside.max) for row, inside in found]
