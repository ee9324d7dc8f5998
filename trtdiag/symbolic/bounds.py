"""Exact ranges of expressions over a box of symbol ranges.

In order: monotone expressions by their corners, sums and other monotone functions of parts without a shared symbol by
those parts, the rest by trying all values of the symbols that are not monotone (with the others at their corners) or,
for one symbol over a large or open range, by the algebra of residue classes.  What none of these covers gets a sound
interval that is marked as such.  An open end is never replaced by a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd

from trtdiag.symbolic import periodic
from trtdiag.symbolic.build import Number, affine, mul
from trtdiag.symbolic.conditions import substitute
from trtdiag.symbolic.ends import Ends, outwards
from trtdiag.symbolic.evaluate import compiled_expr
from trtdiag.symbolic.evaluate_array import evaluate_masked
from trtdiag.symbolic.expr import Add, Ceil, Expr, Floor, FloorDiv, Max, Min, Mod, Mul, Num, Pow, Sym, TrueDiv, Trunc
from trtdiag.symbolic.float_factors import rounds
from trtdiag.symbolic.grid import Grid, tuple_count
from trtdiag.symbolic.intervals import Intervals
from trtdiag.symbolic.polynomials import NotApplicableError
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.shared_symbols import tied_groups
from trtdiag.symbolic.tree import free_symbols, is_integer, is_total

MOST_TRIED = 1 << 20
FEW_TRIED = 1 << 12

Box = Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The values of an expression over a box.

    Attributes:
        range: From the least to the greatest value; empty where the expression is defined nowhere.
        exact: Whether both ends are reached (an open end: whether values grow without end). Otherwise all values
            lie inside, but the ends may be loose.
        method: How it was found, or why it is not exact.
    """

    range: Range
    exact: bool
    method: str


class BoundsCache:
    """Bounds over one box, each expression computed once."""

    def __init__(self, box: Box) -> None:
        self.box = dict(box)
        self.intervals = Intervals(self.box)
        self._known: dict[Expr, Bounds] = {}

    def of(self, expr: Expr) -> Bounds:
        """The bounds of ``expr``; a symbol without a range may have any value."""
        found = self._known.get(expr)
        if found is None:
            found = self._known[expr] = self._compute(expr)
        return found

    def _compute(self, expr: Expr) -> Bounds:
        if isinstance(expr, Num):
            return _bounds((expr.value, expr.value), "a number")
        if isinstance(expr, Sym):
            return Bounds(self.box.get(expr.name, Range()), True, "the range of the symbol")
        names = sorted(free_symbols(expr))
        if any(self._range(name).empty for name in names):
            return Bounds(Range(0, -1), True, "the range of a symbol is empty")
        directions = {name: self.intervals.direction(expr, name) for name in names}
        found = self._by_corners(expr, directions) if None not in directions.values() else None
        found = found or self._by_all_residues(expr) or self._by_trying(expr, directions, FEW_TRIED)
        found = found or self._by_parts(expr)
        found = found or self._by_trying(expr, directions, MOST_TRIED) or self._by_algebra(expr, names)
        return found or self._by_interval(expr, directions)

    def _range(self, name: str) -> Range:
        return self.box.get(name, Range())

    def _by_corners(self, expr: Expr, directions: Mapping[str, int | None]) -> Bounds | None:
        low = self._corner(expr, directions, up=False)
        high = self._corner(expr, directions, up=True)
        if low is None or high is None:
            return None
        return _bounds((low[0], high[0]), "corners of a monotone expression")

    def _corner(self, expr: Expr, directions: Mapping[str, int | None], *, up: bool) -> tuple[Number | None] | None:
        """The value at the corner (``None`` inside: no end), ``None`` where it is not found."""
        fixed: dict[str, int] = {}
        going: dict[str, int] = {}  # those without an end there, and the sign in which they go on
        for name, direction in directions.items():
            range_, rising = self._range(name), (direction == 1) == up
            end = range_.max if rising else range_.min
            if end is not None:
                fixed[name] = end
            else:
                going[name] = 1 if rising else -1
        if not going:
            try:
                return (compiled_expr(expr)(fixed),)
            except (ZeroDivisionError, OverflowError):
                return None
        return (None,) if self._strict(expr, going) else self._limit(expr, fixed, going, up=up)

    def _strict(self, expr: Expr, names: Iterable[str]) -> bool:
        for name in names:
            low, high = self.intervals.step(expr, name)
            if (low is not None and low > 0) or (high is not None and high < 0):
                return is_integer(expr) or low == high
        return False

    def _limit(
        self, expr: Expr, fixed: Mapping[str, int], going: Mapping[str, int], *, up: bool
    ) -> tuple[Number | None] | None:
        """The extreme along the diagonal on which all open symbols go to their open ends together.

        A monotone expression comes as close to its extreme there as anywhere.
        """
        diagonal = "t"
        while diagonal in fixed:
            diagonal += "t"
        starts = [self._range(name).scaled(sign, 0).min for name, sign in going.items()]
        start = max((start for start in starts if start is not None), default=0)
        line = substitute(expr, {**fixed, **{name: mul(sign, Sym(diagonal)) for name, sign in going.items()}})
        if isinstance(line, Num):
            return (line.value,)
        try:
            found = periodic.extent(line, Range(start, None))
        except NotApplicableError:
            return None
        return None if found is None else (found[1] if up else found[0],)

    def _by_trying(self, expr: Expr, directions: Mapping[str, int | None], limit: int) -> Bounds | None:
        tried = [name for name, direction in directions.items() if direction is None]
        count = tuple_count(tried, self.box)
        if not tried or count is None or count > limit:
            return None
        grids = Grid.of(tried, self.box).arrays()
        ends: list[Number] = []
        for up in (False, True):
            here = dict(grids)
            for name, direction in directions.items():
                if direction is not None:
                    range_ = self._range(name)
                    end = range_.max if (direction == 1) == up else range_.min
                    if end is None:
                        return None
                    here[name] = end
            try:
                values, defined = evaluate_masked(expr, here)
            except (OverflowError, ValueError):
                return None
            if not defined.all() and len(tried) < len(directions):
                return None  # a corner that is not defined says nothing about the values beside it
            reached = values[defined]
            if reached.size == 0:
                return Bounds(Range(0, -1), True, "defined for no value")
            ends.append(int(reached.max() if up else reached.min()))
        return _bounds((ends[0], ends[1]), f"all {count:,} values of {', '.join(tried)} tried")

    def _by_parts(self, expr: Expr) -> Bounds | None:
        """Monotone functions of parts that share no symbol: each part reaches its ends on its own."""
        parts = _parts(expr)
        if not parts or _overlap(parts):
            return None
        bounds = [self.of(part) for part in parts]
        if not all(bound.exact and not bound.range.empty for bound in bounds):
            return None
        joined = _joined(expr, [bound.range for bound in bounds])
        if joined is None:
            return None
        return _bounds(joined, f"parts without a shared symbol: {bounds[0].method}")

    def _by_all_residues(self, expr: Expr) -> Bounds | None:
        """``(c*s + rest) % k`` takes all values below ``k`` where ``s`` has ``k`` values; ``c``, ``k`` coprime."""
        if not (isinstance(expr, Mod) and isinstance(expr.right, Num) and expr.right.value > 0):
            return None
        divisor = int(expr.right.value)
        terms = expr.left.args if isinstance(expr.left, Add) else (expr.left,)
        for term in terms:
            name, factor, _ = affine(term) or ("", 0, 0)
            others = (free_symbols(other) for other in terms if other is not term)
            if not name or any(name in symbols for symbols in others) or gcd(factor, divisor) != 1:
                continue
            count = self._range(name).count
            if (count is None or count >= divisor) and is_integer(expr.left) and is_total(expr.left):
                return _bounds((0, divisor - 1), f"{name} takes all residues")
        return None

    def _by_algebra(self, expr: Expr, names: list[str]) -> Bounds | None:
        if len(names) != 1:
            return None
        try:
            found = periodic.extent(expr, self._range(names[0]))
        except NotApplicableError:
            return None
        if found is None:
            return Bounds(Range(0, -1), True, "defined for no value")
        return _bounds(found, "residue classes")

    def _by_interval(self, expr: Expr, directions: Mapping[str, int | None]) -> Bounds:
        low, high = self.intervals.expr(expr)
        free = [name for name, direction in directions.items() if direction is None] or list(directions)
        why = f"an interval: not monotone in {', '.join(free)}, and too many values to try"
        if any(not self._range(name).bounded for name in directions):
            why = f"an interval: {', '.join(free)} cannot be followed to an open end"
        bounds = _bounds((low, high), why)
        return Bounds(bounds.range, False, why)


def bounds(expr: Expr, box: Box) -> Bounds:
    """The bounds of one expression over ``box``; keep a ``BoundsCache`` for many."""
    return BoundsCache(box).of(expr)


def rounded_bounds(expr: Expr, box: Box) -> Range:
    """The bounds of a size, with one more at each end where it ``rounds``: floats may be rounded at each step."""
    found = bounds(expr, box).range
    if not rounds(expr):
        return found
    return Range(None if found.min is None else found.min - 1, None if found.max is None else found.max + 1)


def _bounds(ends: Ends, method: str) -> Bounds:
    low, high = around = outwards(ends)
    whole = around == ends
    range_ = Range(None if low is None else int(low), None if high is None else int(high))
    return Bounds(range_, whole, method if whole else f"{method}, rounded outwards to integers")


def _parts(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Add(args) | Mul(args) | Min(args) | Max(args):
            return _grouped(args, type(expr))
        case FloorDiv(left, right) | TrueDiv(left, right):
            return (left, right)
        case Floor(arg) | Ceil(arg) | Trunc(arg):
            return (arg,)
        case Pow(base, Num()):
            return (base,)
        case _:
            return ()


def _grouped(args: tuple[Expr, ...], kind: type) -> tuple[Expr, ...]:
    """Operands joined so that no two groups share a symbol; the same operation joins each group."""
    groups = tied_groups(args, free_symbols)
    return tuple(group[0] if len(group) == 1 else kind(tuple(group)) for group in groups) if len(groups) > 1 else ()


def _overlap(parts: tuple[Expr, ...]) -> bool:
    return sum(len(free_symbols(part)) for part in parts) > len(frozenset().union(*map(free_symbols, parts)))


def _joined(expr: Expr, ranges: list[Range]) -> Ends | None:
    """The ends of ``expr`` over parts that reach theirs; ``None`` where it need not reach its own then."""
    names = [f"part{index}" for index in range(len(ranges))]
    parts = tuple(Sym(name) for name in names)
    whole: Expr
    match expr:
        case Add() | Mul() | Min() | Max():
            whole = type(expr)(parts)
        case FloorDiv() | TrueDiv():
            least, most = ranges[1].min, ranges[1].max
            # A limit at an open divisor is approached, not reached, by a true division.
            if least is None or least <= 0 or (isinstance(expr, TrueDiv) and most is None):
                return None
            whole = type(expr)(*parts)
        case Pow(_, exponent):
            if ranges[0].min is None or ranges[0].min < 0:
                return None
            whole = Pow(parts[0], exponent)
        case _:
            return ranges[0].min, ranges[0].max  # rounding whole numbers
    return Intervals(dict(zip(names, ranges, strict=True))).compute(whole)
