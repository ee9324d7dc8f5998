"""Exact solutions of one-symbol conditions and exact extremes of one-symbol expressions over ranges of any size."""

from __future__ import annotations

from functools import reduce

import numpy as np

from trtdiag.symbolic.ends import Ends, hull
from trtdiag.symbolic.expr import And, Condition, Expr, Or, Truth
from trtdiag.symbolic.patterns import PatternError
from trtdiag.symbolic.piecewise_polynomials import Piece, condition_regions, expression_pieces
from trtdiag.symbolic.polynomials import NotApplicableError, Poly
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
            return reduce(ValueSet.intersect, (_solve(arg, range_) for arg in args))
        case Or(args):
            return reduce(ValueSet.union, (_solve(arg, range_) for arg in args))
    period, regions = condition_regions(condition, range_)
    stretches = []
    for region in regions:
        low = None if region.low is None else region.low * period
        high = None if region.high is None else region.high * period + period - 1
        stretches.append(Stretch(low, high, region.value))
    return ValueSet(range_, stretches)


def extent(expr: Expr, range_: Range) -> Ends | None:
    """The exact least and greatest value of an integer expression of one symbol; ``None`` inside is an open end.

    The result itself is ``None`` where the expression is not defined for any value of the range.

    Raises:
        NotApplicableError: The algebra of residue classes does not cover it, or not within its limits.
    """
    period, pieces = expression_pieces(expr, range_)
    found = [extent for piece in pieces for extent in _piece_extents(piece, period, range_)]
    return reduce(hull, found) if found else None


def _piece_extents(piece: Piece[Poly], period: int, range_: Range) -> list[Ends]:
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
