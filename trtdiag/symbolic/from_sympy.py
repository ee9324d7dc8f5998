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
        result = _node(expr, 0)
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


def _node(expr: Any, depth: int) -> Expr | Condition:
    if depth > MOST_DEPTH:
        raise ExpressionError(str(expr), "it is nested too deeply")
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
        return _relation(RELATIONS[name], expr.args[0], expr.args[1], depth)
    if name == "Piecewise":
        return select([(_node(pair.args[0], depth + 1), _node(pair.args[1], depth + 1)) for pair in expr.args])  # type: ignore[misc]
    if name not in FUNCTIONS:
        raise FunctionError(f"{'the function ' if getattr(expr, 'args', ()) else ''}{name} has no meaning for sizes")
    return call_function(name, [_node(arg, depth + 1) for arg in expr.args])


def _relation(relation: Relation, left: Any, right: Any, depth: int) -> Condition:
    for operand, other, seen in ((right, left, relation), (left, right, FLIPPED[relation])):
        sign = _INFINITIES.get(type(operand).__name__)
        if sign is not None:
            if type(other).__name__ in _INFINITIES:
                raise FunctionError("it compares two infinities")
            _node(other, depth + 1)
            return Truth(compare_infinite(seen, sign))
    first, second = _node(left, depth + 1), _node(right, depth + 1)
    if is_condition(first) and is_condition(second) and relation in OF_CONDITIONS:
        return OF_CONDITIONS[relation](first, second)  # type: ignore[arg-type]
    return call_function(_NAMES[relation], [first, second])  # type: ignore[return-value]


_NAMES = {relation: name for name, relation in RELATIONS.items()}
