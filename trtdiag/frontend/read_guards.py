"""Recorded guards as conditions over the graph's symbols."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import finalize

import sympy

from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import Program, RawGuard
from trtdiag.symbolic import ExpressionError, from_sympy, holds, is_condition, parse_condition
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.tree import free_symbols

_MOST_TRIES = 24


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
    """A guard with the condition that it states, or with the reason why it cannot be read."""

    guard: RawGuard
    condition: Condition | None
    why: str = ""


_READ: dict[int, tuple[ReadGuard, ...]] = {}
"""Of programs that are alive, by identity: a program is compared by value, and what is in it has no hash."""


def read_guards(program: Program) -> tuple[ReadGuard, ...]:
    """Every guard of a program, in order; read once, for most stages ask and a large model has thousands."""
    found = _READ.get(id(program))
    if found is None:
        sites = Sites(program)
        found = _READ[id(program)] = tuple(_read(guard, sites) for guard in program.guards)
        finalize(program, _READ.pop, id(program), None)
    return found


def _read(guard: RawGuard, sites: Sites) -> ReadGuard:
    try:
        return ReadGuard(guard, read_guard(guard, sites))
    except KeyError as error:
        return ReadGuard(guard, None, f"{error.args[0]} is no dim of an input")
    except ExpressionError as error:
        return ReadGuard(guard, None, str(error))


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
