"""The sizes that a declaration admits, as conditions on the coordinates of what was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trtdiag.dims.plan import Plan
from trtdiag.dims.solver.choose import Chosen
from trtdiag.dims.solver.runs import along
from trtdiag.dims.solver_input import from_data, system_of
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.several_programs.coordinates import Coordinate
from trtdiag.frontend.program import InputTensor
from trtdiag.symbolic import add, compare, floordiv, free_symbols, mod, mul, normalise, sub, substitute
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.conditions import TRUE
from trtdiag.symbolic.expr import Condition, Expr, Num, Relation, Sym
from trtdiag.symbolic.ranges import Range

Conditions = tuple[Condition, ...]


def placed(
    sizes: Mapping[str, Expr], ranges: Mapping[str, Range], coordinates: Sequence[Coordinate]
) -> tuple[dict[str, Expr], Conditions] | None:
    """``sizes`` (site -> size over symbols) read backwards; ``None`` where a symbol cannot be read off any size.

    Returns:
        Symbol -> its value over the coordinates; and what the coordinates must satisfy to have such sizes at all:
        symbols are whole, inside their ranges, and equal where they size several dims.
    """
    values: dict[str, Expr] = {}
    found: list[Condition] = []
    lines = [(c, site) for c in coordinates for site in c.lines if site in sizes]
    used: set[tuple[str, tuple[int, int], Expr]] = (
        set()
    )  # of one coordinate, dims that are declared alike say one thing
    for symbol in dict.fromkeys(name for _, site in lines for name in sorted(free_symbols(sizes[site]))):
        best = None
        for coordinate, site in lines:
            line = affine(sizes[site])
            if line is None or line[0] != symbol or line[1] < 1:
                continue
            rank = (coordinate.follows, coordinate.lines[site][0] % line[1] != 0, coordinate.lines[site][0], line[1])
            if best is None or rank < best[0]:
                best = (rank, coordinate, site, line[1], line[2])
        if best is None:
            return None
        _, coordinate, site, scale, offset = best
        values[symbol] = _value(coordinate, site, scale, offset, ranges.get(symbol, Range()), found)
        used.add((coordinate.name, coordinate.lines[site], sizes[site]))
    for coordinate, site in lines:
        if (coordinate.name, coordinate.lines[site], sizes[site]) not in used:
            found.append(_equal(coordinate, site, substitute(sizes[site], values)))
    return values, _distinct(found)


def _value(coordinate: Coordinate, site: str, scale: int, offset: int, range_: Range, found: list[Condition]) -> Expr:
    """The symbol over the coordinate, where the size there is ``scale * symbol + offset``; notes what that takes."""
    own, shift = coordinate.lines[site]
    name = Sym(coordinate.name)
    ends = (None if end is None else scale * end + offset - shift for end in (range_.min, range_.max))
    low, high = ends
    if low is not None and low == high:
        found.append(compare(Relation.EQ, mul(own, name), low))
    else:
        if low is not None:
            found.append(compare(Relation.GE, name, -(-low // own)))
        if high is not None:
            found.append(compare(Relation.LE, name, high // own))
    if own % scale == 0 and (shift - offset) % scale == 0:
        return add(mul(own // scale, name), (shift - offset) // scale)
    if own == 1:
        found.append(compare(Relation.EQ, mod(name, scale), (offset - shift) % scale))
    else:
        found.append(compare(Relation.EQ, mod(add(mul(own, name), shift - offset), scale), 0))
    return floordiv(add(mul(own, name), shift - offset), scale)


def _equal(coordinate: Coordinate, site: str, size: Expr) -> Condition:
    scale, offset = coordinate.lines[site]
    if isinstance(size, Num) and scale == 1:
        return compare(Relation.EQ, Sym(coordinate.name), sub(size, offset))
    return compare(Relation.EQ, coordinate.size(site), size)


def _distinct(conditions: Iterable[Condition]) -> Conditions:
    return tuple(dict.fromkeys(c for c in map(normalise, conditions) if c != TRUE))


def sizes_in(inputs: Iterable[InputTensor]) -> dict[str, Expr]:
    """Site -> size."""
    return {dim.site: dim.expr for tensor in inputs for dim in tensor.dims}


def taken_by_plan(tried: Tried, plan: Plan, coordinates: Sequence[Coordinate]) -> Conditions | None:
    """What an exported ``plan`` admits, all of whose conditions hold; ``None`` where that cannot be said."""
    view = view_of(tried, plan, coordinates)
    return None if view is None else _distinct(condition for condition, origin in view.conditions if origin is None)


def taken_by_choice(tried: Tried, chosen: Chosen, coordinates: Sequence[Coordinate]) -> Conditions | None:
    """What ``chosen`` would admit, not exported yet."""
    roots = along(chosen.sets)
    ranges = {name: run.range for name, run in chosen.sets.items()}
    sizes = {
        site: substitute(substitute(size, chosen.determined), roots) for site, size in sizes_in(tried.inputs).items()
    }
    found = placed(sizes, ranges, coordinates)
    return None if found is None else found[1]


@dataclass(frozen=True)
class View:
    """The sizes that go the way of one export's example, as far as its conditions say.

    Attributes:
        tried: The export.
        plan: What it was declared with.
        values: Its symbols over the coordinates.
        conditions: What the sizes satisfy, over the coordinates, each with the condition over symbols that it comes
            from (``None``: from how dims became one).
    """

    tried: Tried
    plan: Plan
    values: Mapping[str, Expr]
    conditions: tuple[tuple[Condition, Condition | None], ...]


def view_of(tried: Tried, plan: Plan, coordinates: Sequence[Coordinate]) -> View | None:
    """The view of one export that traced the whole model; ``None`` where its sizes cannot be told by coordinates."""
    system = system_of(tried.inputs, plan)
    found = placed(sizes_in(tried.inputs), system.box, coordinates)
    if found is None:
        return None
    values, placing = found
    stated = [c for c in tried.conditions if not from_data(c, system.box) and free_symbols(c) <= values.keys()]
    conditions = [
        *((condition, None) for condition in placing),
        *((normalise(substitute(condition, values)), condition) for condition in stated),
        *((normalise(substitute(condition, values)), None) for condition in system.asked),
    ]
    return View(tried, plan, values, tuple(pair for pair in conditions if pair[0] != TRUE))
