"""Reads expressions and conditions from sympy objects, torch's own sympy functions included.

Classes are matched by name, so neither sympy nor torch's private modules are imported here.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from trtdiag.symbolic import build
from trtdiag.symbolic.conditions import FLIPPED
from trtdiag.symbolic.expr import Condition, Expr, Relation, Sym, Truth
from trtdiag.symbolic.functions import (
    FUNCTIONS,
    OF_CONDITIONS,
    RELATIONS,
    ExpressionError,
    FunctionError,
    as_condition,
    as_number,
    call_function,
    compare_infinite,
    select,
)
from trtdiag.symbolic.tree import is_condition, size

MOST_DEPTH = 150
MOST_NODES = 20_000
_INFINITIES = {"Infinity": 1, "NegativeInfinity": -1, "IntInfinity": 1, "NegativeIntInfinity": -1}


# ``typed``: sympy's true equals its 1 and would share an entry.
@lru_cache(maxsize=1 << 16, typed=True)
def from_sympy(expr: Any) -> Expr | Condition:
    """The node of a sympy expression, relation or Boolean, or of a plain number.

    Raises:
        ExpressionError: It has no meaning as a size or guard (infinity, a function of real numbers, ...).
    """
    try:
        if _height(expr, {}) > MOST_DEPTH:
            raise ExpressionError(str(expr), "it is nested too deeply")
        result = _Reader().node(expr)
    except FunctionError as error:
        raise ExpressionError(str(expr), str(error)) from error
    except RecursionError as error:
        raise ExpressionError("a sympy expression", "it is nested too deeply") from error
    if size(result) > MOST_NODES:
        raise ExpressionError("a sympy expression", f"it grows to more than {MOST_NODES} operations")
    return result


def expr_from_sympy(expr: Any) -> Expr:
    """Like ``from_sympy`` for what must be a number."""
    return as_number(expr, from_sympy(expr))


def condition_from_sympy(expr: Any) -> Condition:
    """Like ``from_sympy`` for what must be a condition."""
    return as_condition(expr, from_sympy(expr))


def _height(expr: Any, known: dict[Any, int]) -> int:
    """How deep an expression is nested; ``known`` has that of its parts."""
    parts = getattr(expr, "args", ())
    if type(expr).__name__ == "Piecewise":
        parts = [part for pair in parts for part in pair.args]
    for part in parts:
        if part not in known:
            known[part] = _height(part, known)
    return 1 + max(known[part] for part in parts) if parts else 0


class _Reader:
    """Reads one expression, each of its parts once: sizes of padded windows have the same ones dozens of times."""

    def __init__(self) -> None:
        self._known: dict[tuple[type, Any], Expr | Condition] = {}

    def node(self, expr: Any) -> Expr | Condition:
        key = type(expr), expr
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read(expr)
        return found

    def _read(self, expr: Any) -> Expr | Condition:
        if isinstance(expr, bool):
            return Truth(expr)
        if isinstance(expr, int | Fraction):
            return build.number(expr)
        name = type(expr).__name__
        if name in ("BooleanTrue", "BooleanFalse"):
            return Truth(name == "BooleanTrue")
        if name in _INFINITIES or name in ("NaN", "ComplexInfinity"):
            raise FunctionError(f"it computes with {expr}")
        if getattr(expr, "is_Symbol", False):
            return Sym(expr.name)
        if getattr(expr, "is_Rational", False):
            return build.number(Fraction(int(expr.p), int(expr.q)))
        if isinstance(expr, float) or getattr(expr, "is_Float", False):
            return build.number(Fraction(float(expr)))  # sympy 1.14 has no Float.as_integer_ratio; 53 bits are exact
        if name in RELATIONS:
            return self._relation(RELATIONS[name], expr.args[0], expr.args[1])
        if name == "Piecewise":
            return select([(self.node(pair.args[0]), self.node(pair.args[1])) for pair in expr.args])  # type: ignore[misc]
        if name not in FUNCTIONS:
            raise FunctionError(
                f"{'the function ' if getattr(expr, 'args', ()) else ''}{name} has no meaning for sizes"
            )
        return call_function(name, [self.node(arg) for arg in expr.args])

    def _relation(self, relation: Relation, left: Any, right: Any) -> Condition:
        for operand, other, seen in ((right, left, relation), (left, right, FLIPPED[relation])):
            sign = _INFINITIES.get(type(operand).__name__)
            if sign is not None:
                if type(other).__name__ in _INFINITIES:
                    raise FunctionError("it compares two infinities")
                self.node(other)
                return Truth(compare_infinite(seen, sign))
        first, second = self.node(left), self.node(right)
        if is_condition(first) and is_condition(second) and relation in OF_CONDITIONS:
            return OF_CONDITIONS[relation](first, second)  # type: ignore[arg-type]
        return call_function(_NAMES[relation], [first, second])  # type: ignore[return-value]


_NAMES = {relation: name for name, relation in RELATIONS.items()}
