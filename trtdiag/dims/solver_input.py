"""From a try to what the solver takes: the asked range of each symbol, and the conditions on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.frontend.program import InputDim, InputTensor
from trtdiag.symbolic import add, compare, free_symbols, mod, mul, sub
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.conditions import FALSE, TRUE, within
from trtdiag.symbolic.expr import Condition, Expr, Num, Relation, Sym
from trtdiag.symbolic.ranges import Range

UNBACKED = re.compile(r"z?u\d+|zf?\d+")
LOWEST_HINTED = 2
"""Where a hint has no minimum: torch traces dims under hints as if they were never 0 or 1 (torch 2.13,
``ShapeEnv.create_symbol``), so no guard speaks about smaller sizes."""
LOWEST_NAMED = 1
"""Where a ``Dim`` has no minimum: torch then writes 0, which nobody asked for."""


@dataclass(frozen=True)
class System:
    """What was asked of the symbols of one try.

    Attributes:
        box: Symbol -> asked range.
        asked: Conditions that the asked ranges put on sizes made of several symbols, with the dim's site.
    """

    box: Mapping[str, Range]
    asked: Mapping[Condition, str]


def asked_range(leaf: Leaf, plan: Plan) -> Range:
    """The sizes between which a leaf asks, its lowest size filled in where none is written."""
    if leaf.kind is LeafKind.STATIC:
        return Range(leaf.value, leaf.value)
    if leaf.kind is LeafKind.DIM:
        sizes = plan.range_of(leaf.root).scaled(leaf.scale, leaf.offset)
        lowest = LOWEST_NAMED + (leaf.offset - LOWEST_NAMED) % leaf.scale
        least = lowest if sizes.min is None else sizes.min
        return Range(least if least >= 0 else leaf.offset % leaf.scale, sizes.max)  # no size is negative
    return Range(LOWEST_HINTED if leaf.range.min is None else leaf.range.min, leaf.range.max)


def dims_in(inputs: Iterable[InputTensor], plan: Plan) -> list[tuple[InputDim, Leaf]]:
    """Every input dim that the plan declares, with its leaf."""
    return [(dim, plan.leaves[dim.site]) for tensor in inputs for dim in tensor.dims if dim.site in plan.leaves]


def system_of(inputs: Sequence[InputTensor], plan: Plan) -> System:
    """The asked ranges over the symbols that a try has left."""
    box: dict[str, Range] = {}
    asked: dict[Condition, str] = {}
    for dim, leaf in dims_in(inputs, plan):
        range_ = asked_range(leaf, plan)
        if isinstance(dim.expr, Num):
            continue
        line = affine(dim.expr)
        if line is not None:
            symbol, scale, offset = line
            inner = range_.unscaled(scale, offset)
            box[symbol] = box[symbol].intersect(inner) if symbol in box else inner
            if leaf.kind is LeafKind.DIM and leaf.scale > 1 and scale == 1:
                asked[compare(Relation.EQ, mod(sub(dim.expr, leaf.offset), leaf.scale), 0)] = dim.site
            continue
        if leaf.kind in (LeafKind.AUTO, LeafKind.DYNAMIC) and leaf.range == Range():
            continue
        asked.update(dict.fromkeys(within(dim.expr, range_), dim.site))
    asked.update(_one_dim(inputs, plan))
    for dim, _leaf in dims_in(inputs, plan):
        for symbol in free_symbols(dim.expr):
            box.setdefault(symbol, Range(LOWEST_HINTED, None))
    return System(box, asked)


def _one_dim(inputs: Iterable[InputTensor], plan: Plan) -> dict[Condition, str]:
    """That sizes which are declared with one Dim fit together, where the export did not tie them itself.

    Only an export that was made without the asked Dims leaves any (``Dim.AUTO`` in their place).
    """
    found: dict[Condition, str] = {}
    first: dict[str, tuple[InputDim, Leaf]] = {}
    for dim, leaf in dims_in(inputs, plan):
        if leaf.kind is not LeafKind.DIM:
            continue
        other, known = first.setdefault(leaf.root, (dim, leaf))
        roots = mul(known.scale, sub(dim.expr, leaf.offset)), mul(leaf.scale, sub(other.expr, known.offset))
        tie = compare(Relation.EQ, *roots)
        if tie not in (TRUE, FALSE):
            found[tie] = dim.site
    return found


def tied_symbols(inputs: Iterable[InputTensor], plan: Plan) -> dict[str, Expr]:
    """Symbol -> its size over the symbol of another dim that is declared with the same Dim.

    As in ``system_of``, only an export without the asked Dims leaves two symbols for one Dim.
    """
    roots: dict[str, str] = {}
    found: dict[str, Expr] = {}
    plain = [(dim.expr.name, leaf) for dim, leaf in dims_in(inputs, plan) if isinstance(dim.expr, Sym)]
    for symbol, leaf in sorted(plain, key=lambda pair: (pair[1].scale, pair[1].offset) != (1, 0)):
        if leaf.kind is not LeafKind.DIM:
            continue
        whole = (leaf.scale, leaf.offset) == (1, 0)
        form = leaf.root if whole else f"{leaf.scale}*{leaf.root} + {leaf.offset}"
        known = roots.setdefault(form, symbol)
        root = roots.get(leaf.root)
        if symbol in found or symbol == root:
            continue
        if known != symbol:
            found[symbol] = Sym(known)
        elif not whole and root is not None:
            found[symbol] = add(mul(leaf.scale, Sym(root)), leaf.offset)
    return found


def from_data(condition: Condition, box: Mapping[str, Range]) -> bool:
    """Whether a condition speaks of a size that only data decides: the program checks it when it runs."""
    return any(UNBACKED.fullmatch(symbol) for symbol in free_symbols(condition) if symbol not in box)


ONLY_SIZES = "only sizes are solved for"
"""Why a condition that was read says nothing of what is proven."""


def on_integers(conditions: Iterable[Condition], inputs: Iterable[InputTensor]) -> dict[Condition, str]:
    """Conditions that speak of an integer input: only sizes are solved for; each with the name of the input."""
    names = {s: each.name for each in inputs if each.number is not None for s in free_symbols(each.number)}
    spoken = ((each, sorted(free_symbols(each) & names.keys())) for each in conditions)
    return {condition: names[symbols[0]] for condition, symbols in spoken if symbols}


def stated(conditions: Iterable[Condition], system: System) -> tuple[Condition, ...]:
    """The distinct conditions that sizes must satisfy, in the order in which the solver gets them."""
    recorded = [condition for condition in conditions if not from_data(condition, system.box)]
    return tuple(dict.fromkeys([*recorded, *system.asked]))


def corner_points(box: Mapping[str, Range], hints: Mapping[str, int]) -> list[dict[str, int]]:
    """The smallest and the largest sizes, and each symbol at its end with the others at the other end.

    An open end is taken to be four times the example: a number is needed to run anything.
    """
    ends = {symbol: _ends(range_, hints.get(symbol)) for symbol, range_ in box.items() if not range_.empty}
    if not ends:
        return [{}]
    points = [{s: low for s, (low, _) in ends.items()}, {s: high for s, (_, high) in ends.items()}]
    if 1 < len(ends) <= 6:
        for symbol, (low, high) in ends.items():
            points.append({**points[1], symbol: low})
            points.append({**points[0], symbol: high})
    return [point for index, point in enumerate(points) if point not in points[:index]]


def _ends(range_: Range, hint: int | None) -> tuple[int, int]:
    low = range_.min if range_.min is not None else hint if hint is not None else 1
    high = range_.max if range_.max is not None else max(low, 4 * (hint or 1))
    return low, high
