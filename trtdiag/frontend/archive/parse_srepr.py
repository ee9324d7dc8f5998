"""Computes sizes of sums and products from their texts without sympy's parser.

That parser takes a millisecond for each text, and brings all of sympy.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import sympy

from trtdiag.wording import words

_CORE = words(
    "Symbol Integer Rational Add Mul Pow Eq Ne Lt Le Gt Ge Equality Unequality StrictLessThan LessThan"
    " StrictGreaterThan GreaterThan And Or Not"
)
"""What ``sympy.srepr`` writes of sizes and conditions, by names of sympy's core."""


def parse_srepr(text: str, functions: Mapping[str, Any]) -> Any:
    """The expression of a text that ``sympy.srepr`` wrote, or the text itself where more is needed to read it.

    Args:
        text: One that passed ``check_symbol_expression``.
        functions: By name, what else the text may call.
    """
    try:
        return _made(ast.parse(text, mode="eval").body, functions)
    except (LookupError, SyntaxError):
        return text


def _made(node: ast.expr, functions: Mapping[str, Any]) -> Any:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            function = functions[name] if name in functions else _core(name)
            named = {str(each.arg): _made(each.value, functions) for each in node.keywords}
            return function(*(_made(each, functions) for each in node.args), **named)
        case ast.Constant(value=bool() | int() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_made(operand, functions)
    raise LookupError(type(node).__name__)


def _core(name: str) -> Any:
    if name not in _CORE:
        raise LookupError(name)
    return getattr(sympy, name)
