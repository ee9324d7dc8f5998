"""Recorded guards as conditions over the graph's symbols."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from weakref import finalize

import sympy

from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import Program, RawGuard
from trtdiag.frontend.torch_private import derived_ranges
from trtdiag.symbolic import ExpressionError, from_sympy, holds, is_condition, parse_condition, sources_in
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import free_symbols

_MOST_TRIES = 24
_FLOAT_FUNCTIONS = re.compile(r"[Ff]loat|[Ss]qrt|TrueDiv")
_FLOATS = re.compile(rf"\d\.\d|{_FLOAT_FUNCTIONS.pattern}|[^/]/[^/]")
_TRACED_FROM = 2


def read_guard(guard: RawGuard, sites: Sites) -> Condition:
    """One guard as a condition over graph symbols.

    Raises:
        ExpressionError: It is in no known notation, or says nothing about sizes.
        KeyError: It names something that is no dim of an input.
    """
    if isinstance(guard.condition, sympy.Basic):
        condition = from_sympy(guard.condition)
        if not is_condition(condition):
            raise ExpressionError(str(guard.condition), "it is a number, not a condition")
        return condition  # type: ignore[return-value]  # is_condition has just said so
    return parse_condition(str(guard.condition), sites.resolve)


@dataclass(frozen=True, slots=True)
class ReadGuard:
    """A guard with the condition that it states, or with the reason why it cannot be read.

    ``about`` has the symbols that a guard speaks of which cannot be read; ``None`` where that is not known, either.
    """

    guard: RawGuard
    condition: Condition | None
    why: str = ""
    about: frozenset[str] | None = None


_READ: dict[int, tuple[ReadGuard, ...]] = {}
"""Of programs that are alive, by identity: a program is compared by value, and what is in it has no hash."""


def read_guards(program: Program) -> tuple[ReadGuard, ...]:
    """Every guard of a program, in order; read once, for most stages ask and a large model has thousands."""
    found = _READ.get(id(program))
    if found is None:
        sites = Sites(program)
        found = tuple(_read(guard, sites, program.hints) for guard in program.guards)
        _remember(program, found)
    return found


def _remember(program: Program, found: tuple[ReadGuard, ...]) -> None:
    _READ[id(program)] = found
    finalize(program, _READ.pop, id(program), None)


def _read(guard: RawGuard, sites: Sites, example: Mapping[str, int]) -> ReadGuard:
    try:
        condition = read_guard(guard, sites)
    except KeyError as error:
        return ReadGuard(guard, None, f"{error.args[0]} is no dim of an input")
    except ExpressionError as error:
        return ReadGuard(guard, None, str(error), _spoken_of(guard, sites))
    if not _computes_in_floats(guard.condition):
        return ReadGuard(guard, condition)
    with suppress(OverflowError):  # torch records what held at the example
        if free_symbols(condition) <= example.keys() and not holds(condition, example):
            why = f"{guard.condition} holds at the example in floats alone, as they are rounded"
            return ReadGuard(guard, None, why, free_symbols(condition))
    return ReadGuard(guard, condition)


def _computes_in_floats(condition: object) -> bool:
    """Whether a guard has numbers that are not whole, or functions that give such."""
    if not isinstance(condition, sympy.Basic):
        return _FLOATS.search(str(condition)) is not None
    waiting, seen = [condition], {condition}  # printing it repeats what stands in it more than once
    while waiting:
        part = waiting.pop()
        whole = part.is_Integer or part.is_Symbol
        if _FLOAT_FUNCTIONS.search(type(part).__name__) or (not whole and (part.is_Number or _is_division(part))):
            return True
        new = {each for each in part.args if each not in seen}
        seen |= new
        waiting += new
    return False


def _is_division(part: sympy.Basic) -> bool:
    """Whether a power is a division or a root."""
    exponent = part.args[1] if part.is_Pow else None
    return exponent is not None and exponent.is_Number and not (exponent.is_Integer and int(exponent) >= 0)


def _spoken_of(guard: RawGuard, sites: Sites) -> frozenset[str] | None:
    """The symbols in a guard that cannot be read; ``None`` where it names something that is no size, or nothing."""
    if isinstance(guard.condition, sympy.Basic):
        sources = frozenset(str(symbol) for symbol in guard.condition.free_symbols)
    else:
        sources = sources_in(str(guard.condition)) or frozenset()
    try:
        found = [free_symbols(sites.resolve(source)) for source in sources]
    except KeyError:
        return None
    return frozenset().union(*found) or None


def with_ranges_of_roots(program: Program) -> Program:
    """The program with the declared ranges of derived Dims' roots, where they begin at 2 for torch alone.

    torch takes no symbol for 0 or 1 while it traces, and writes a guard wherever that decided anything.  What none
    refuses, the exported program takes: ``4*_h`` is 4 then.
    """
    assert program.exported is not None
    found = dict(program.ranges)
    declared: dict[str, int] = {}
    for size, asked in derived_ranges(program.exported.range_constraints):
        made = affine(size)
        known = None if made is None else found.get(made[0])
        if made is not None and made[1] > 0 and known is not None and known.min == _TRACED_FROM:
            least = asked.unscaled(*made[1:]).min or 0
            declared[made[0]] = max(declared.get(made[0], 0), least)
    if not declared:
        return program
    guards = read_guards(program)
    for symbol, least in declared.items():
        own = [read.condition for read in guards if read.condition and free_symbols(read.condition) == {symbol}]
        low = _TRACED_FROM
        while low > least and all(holds(condition, {symbol: low - 1}) for condition in own):
            low -= 1
        found[symbol] = Range(low, found[symbol].max)
    widened = replace(program, ranges=found)
    _remember(widened, guards)
    return widened


def another_point(program: Program) -> dict[str, int] | None:
    """A size for every backed symbol, each other than in the example, that satisfies every guard; ``None`` if unfound.

    Multiples of the example's sizes are tried: guards are mostly about divisors.
    """
    conditions: list[Condition] = []
    for read in read_guards(program):
        if read.condition is None:
            return None  # a guard that cannot be read could forbid any point
        conditions.append(read.condition)
    hints = {symbol: hint for symbol, hint in program.hints.items() if symbol in program.ranges}
    for step in range(2, _MOST_TRIES + 2):
        point = {symbol: hint * step for symbol, hint in hints.items()}
        for symbol, value in point.items():
            if value not in program.ranges[symbol]:
                point[symbol] = _other(hints[symbol], program.ranges[symbol].min, program.ranges[symbol].max, step)
        known = [c for c in conditions if free_symbols(c) <= point.keys()]
        if all(value != hints[symbol] for symbol, value in point.items()) and all(holds(c, point) for c in known):
            return point
    return None


def _other(hint: int, low: int | None, high: int | None, step: int) -> int:
    """A size near the example's, inside the range where there is one: steps of growing size, up and down."""
    for distance in (step - 1, 1 - step):
        value = hint + distance
        if (low is None or value >= low) and (high is None or value <= high) and value > 1:
            return value
    return hint
