"""Dims that the program specializes: to one value, to a narrower range, or to another dim's size; and the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trtdiag.dims.facts import Constraint, GuardOrigin, Narrowed, Pinned, Tied, Verdict
from trtdiag.dims.solver.eliminate import linear
from trtdiag.dims.solver_input import LOWEST_HINTED, UNBACKED
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import InputDim, Join, Pin, Program
from trtdiag.graph.source import NO_STACK
from trtdiag.grouping import grouped
from trtdiag.symbolic import ValueSet, add, allowed, free_symbols, mul
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.expr import Compare, Condition, Expr, Relation, Sym
from trtdiag.symbolic.ranges import Range


def pinned(program: Program, sites: Sites) -> tuple[Pinned, ...]:
    """Every input dim that the user asked to be dynamic, or that tracing began as dynamic, and that is a number."""
    by_site = {pin.site: pin for pin in program.pins}
    checked = _checked(program, sites)
    found = []
    for dim in sites.dims:
        value = sites.static(dim)
        pin = by_site.get(dim.site)
        if value is None and pin is not None:
            value = pin.value
        if value is not None and pin is None and dim.site in checked:
            found.append(Pinned(dim.site, "", value, _CHECKED, GuardOrigin(("_guards_code",))))
        if value is None or (dim.dynamic is not True and pin is None):
            continue
        found.append(Pinned(dim.site, dim.declared or "dynamic", value, _why(dim, value, pin), _origin(pin)))
    return tuple(found)


_CHECKED = "tracing compared it with that size, and the program does not keep the line"
_EQUATION = re.compile(r"(?P<source>.+) == \d+")


def _checked(program: Program, sites: Sites) -> set[str]:
    """The dims that an exported program checks to be one number although nothing is known of their declaration.

    torch writes such a check only for a dim that began as dynamic: one that was never asked for has no guard.
    """
    texts = (str(guard.condition) for guard in program.guards if guard.found_in == "_guards_code")
    dims = (sites.find(match["source"]) for text in texts if (match := _EQUATION.fullmatch(text)))
    return {dim.site for dim in dims if dim is not None and dim.dynamic is None}


def _why(dim: InputDim, value: int, pin: Pin | None) -> str:
    if pin is not None and pin.condition:
        frame = pin.stack.best
        where = f" at {frame}" if frame is not None else ""
        return f"tracing compared it with {value}{where}"
    if value in (0, 1) and dim.hint == value:
        return f"the example input has size {value} here, and torch.export takes 0 and 1 for constants"
    return "tracing took the example's size for a constant; the line is not recorded"


def _origin(pin: Pin | None) -> GuardOrigin:
    if pin is None:
        return GuardOrigin(("input shapes",), NO_STACK)
    return GuardOrigin.traced("ShapeEnv", pin.stack)


# Dims left to torch (``Dim.AUTO``, ``Dim.DYNAMIC``), and derived ones, whose range tracing narrowed without a word.


def narrowed(program: Program, constraints: Sequence[Constraint], sites: Sites) -> tuple[Narrowed, ...]:
    """Each condition that brings an end of a dim's range nearer than asked, where torch.export says nothing of it.

    torch keeps no condition that a declared range implies.  So where nothing is known of the declaration (a saved
    program), a condition that gives an end of the range says that tracing set it, not the user.
    """
    return tuple(found for dim in _silent(sites) for found in _ends(dim, program, constraints))


def _silent(sites: Sites) -> Iterator[InputDim]:
    """The first dim of each symbol of which torch says no narrowing: a hinted one, or one derived from a named Dim.

    Of a plain named Dim it does, and a ShapesSpec (torch 2.14) narrows nothing.
    """
    seen = {dim.expr.name for dim in sites.dims if isinstance(dim.expr, Sym) and dim.declared_name is not None}
    for dim in sites.dims:
        made = affine(dim.expr)
        hinted = isinstance(dim.expr, Sym) and dim.declared_root is None
        if made is None or made[1] < 1 or UNBACKED.fullmatch(made[0]) or dim.dynamic is False or made[0] in seen:
            continue
        if hinted or (dim.declared_root is not None and dim.declared_range is not None):
            seen.add(made[0])
            yield dim


def _ends(dim: InputDim, program: Program, constraints: Sequence[Constraint]) -> Iterator[Narrowed]:
    symbol, scale, offset = affine(dim.expr) or ("", 1, 0)
    now = program.ranges.get(symbol)
    said = (dim.declared_range or Range()).unscaled(scale, offset)
    asked = Range(LOWEST_HINTED if said.min is None else said.min, said.max)
    if now is None or now.empty:
        return
    own = [c for c in constraints if c.symbols == (symbol,) and c.verdict is Verdict.HOLDS and c.origin.asked is None]
    sets = [(c, values) for c in own if (values := _allowed(c, symbol, asked)) is not None and not values.is_full]
    wanted, left, said_as = asked.scaled(scale, offset), now.scaled(scale, offset), dim.declared or ""
    for end, was, is_now in (("max", asked.max, now.max), ("min", asked.min, now.min)):
        bounds = [(c, values.max if end == "max" else values.min) for c, values in sets]
        for cause, bound in bounds:
            if bound is not None and bound != was:
                size = scale * bound + offset
                yield Narrowed(dim.site, said_as, end, size, bound == is_now, wanted, left, dim.hint, cause)


def _allowed(constraint: Constraint, symbol: str, asked: Range) -> ValueSet | None:
    solution = allowed((constraint.condition,), symbol, asked)
    return solution.values if solution.proof.proven else None


# Dims that were declared apart and that the program forces to be equal.


def tied(
    constraints: Sequence[Constraint], sites: Sites, one_dim: Mapping[str, Expr], joins: Sequence[Join] = ()
) -> tuple[Tied, ...]:
    """Groups of dims with different declarations and one size; ``one_dim`` has the symbols of one declaration.

    Torch reports such a pair only when both are plain Dims; a guard with two symbols goes into the program in
    silence, and dims of hints (``Dim.AUTO``) share a symbol without a word.
    """
    found = []
    by_size = grouped((dim.expr, dim) for dim in sites.dims)
    for expr, dims in by_size.items():
        names = {dim.declared_name for dim in dims if dim.declared_name is not None}
        if isinstance(expr, Sym) and len(names) > 1:
            found.append(replace(_tie(dims, None), origin=_join_origin(dims, joins)))
    for constraint in constraints:
        condition = constraint.condition
        asked = constraint.origin.asked is not None  # a finding of its own
        if asked or not isinstance(condition, Compare) or condition.relation is not Relation.EQ:
            continue
        sides = [side for side in (condition.left, condition.right) if isinstance(side, Sym) and by_size.get(side)]
        if len({one_dim.get(side.name, side) for side in sides}) == 2:
            firsts = [by_size[side][0] for side in sides]
            found.append(_tie(firsts, constraint))
    return tuple(found)


def tied_by_guard(
    conditions: Mapping[Condition, GuardOrigin], sites: Sites, ranges: Mapping[str, Range]
) -> dict[str, Expr]:
    """Symbol -> its size over another by a guard of a program that does not say how its dims were declared.

    torch leaves one Dim two symbols where a sum alone ties them (``t + a == b + t``), and stops where there are two
    Dims, so that symbols of one range are taken for one Dim's: the program refuses all other sizes itself.  So are two
    of which one is made of the other (``a == 2*b - 6``), where its range is, too.
    """
    unsaid = {dim.expr.name for dim in sites.dims if isinstance(dim.expr, Sym) and dim.declared is None}
    equal: dict[str, Sym] = {}
    derived: list[tuple[str, str, int, int]] = []
    for condition, origin in conditions.items():
        if origin.asked is not None or not free_symbols(condition) <= unsaid:
            continue
        match condition:
            case Compare(Relation.EQ, Sym(one), Sym(other)):
                first, second = (equal.get(name, Sym(name)) for name in (one, other))
                if first != second and ranges.get(one) == ranges.get(other):
                    equal = {name: first if size == second else size for name, size in equal.items()}
                    equal[second.name] = first
            case _:
                derived += _derivations(condition)
    found: dict[str, Expr] = {**equal}
    for name, root, scale, offset in derived:
        roots = {symbol for size in found.values() for symbol in free_symbols(size)}
        if name not in found and name not in roots and ranges.get(name) == ranges[root].scaled(scale, offset):
            found[name] = add(mul(scale, found.get(root, Sym(root))), offset)
    return found


def _derivations(condition: Condition) -> Iterator[tuple[str, str, int, int]]:
    """``(a, b, 2, -6)`` for ``a == 2*b - 6``: what a derived Dim can say."""
    form = linear(condition)
    match None if form is None else form.terms:
        case ((first, Sym(one)), (second, Sym(other))) if form is not None and first * second < 0:
            if abs(first) == 1:
                yield one, other, abs(second), -first * form.constant
            if abs(second) == 1:
                yield other, one, abs(first), -second * form.constant


def _join_origin(dims: Sequence[InputDim], joins: Sequence[Join]) -> GuardOrigin | None:
    """The guard that made these dims one symbol, where tracing still shows it."""
    among = {dim.site for dim in dims}
    join = next((join for join in joins if among.issuperset(join.sites)), None)
    return None if join is None else GuardOrigin(("ShapeEnv",), join.stack)


def _tie(dims: Sequence[InputDim], constraint: Constraint | None) -> Tied:
    lows = [dim.declared_range.min for dim in dims if dim.declared_range is not None]
    known = [low for low in lows if low is not None]
    return Tied(
        tuple(dim.site for dim in dims),
        tuple(dim.declared or dim.site for dim in dims),
        constraint,
        min(known) if known else 0,
    )
