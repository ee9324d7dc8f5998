"""Reads expressions and conditions from text: Python as torch prints it now, sympy as it printed it before.

The text is parsed as Python and walked; nothing in it is ever run.  What stands for a size (``L['x'].size()[2]``,
``x.shape[2]``, ``s77``) becomes a symbol named by its text; ``.shape[i]`` and ``.size(i)`` are written ``.size()[i]``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from math import isfinite
from typing import Any

from trtdiag.symbolic import build, build_functions
from trtdiag.symbolic.conditions import FLIPPED, all_of, any_of, compare, negate
from trtdiag.symbolic.expr import Condition, Expr, Relation, Sym, Truth
from trtdiag.symbolic.functions import (
    OF_CONDITIONS,
    RELATIONS,
    ExpressionError,
    FunctionError,
    as_condition,
    as_number,
    bits_of,
    bits_of_any,
    bits_of_one,
    call_function,
    compare_infinite,
    power,
    select,
    shift_left,
    shift_right,
)
from trtdiag.symbolic.source_names import (
    _INFINITIES,
    MOST_CHARACTERS,
    MOST_DEPTH,
    brief,
    function_name,
    infinity,
    is_source,
    source_text,
)
from trtdiag.symbolic.tree import is_condition, size

Resolve = Callable[[str], Expr]

MOST_DIGITS = 400
MOST_NODES = 20_000  # some functions repeat their argument, so that nesting them doubles the tree

_SUM: tuple[type[ast.operator], ...] = (ast.Add, ast.Sub)
# Operators that nest no deeper when repeated, each with those of its chain.
_CHAINED: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    **dict.fromkeys(_SUM, _SUM),
    **{kind: (kind,) for kind in (ast.Mult, ast.BitAnd, ast.BitOr)},
}
_RELATIONS: dict[type[ast.cmpop], Relation] = dict(
    zip((ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE), Relation, strict=True)
)
_ARITHMETIC: dict[type[ast.operator], Callable[[Expr, Expr], Expr]] = {
    ast.Mult: build.mul,
    ast.FloorDiv: build.floordiv,
    ast.Mod: build.mod,
    ast.Div: build.truediv,
    ast.Pow: power,
    ast.LShift: shift_left,
    ast.RShift: shift_right,
    ast.BitAnd: bits_of,
    ast.BitOr: bits_of_any,
    ast.BitXor: bits_of_one,
}


def parse_condition(text: str, resolve: Resolve | None = None) -> Condition:
    """The condition that ``text`` states.

    Args:
        text: Python or sympy notation.
        resolve: Maps the text of a source to its expression; without it a source becomes a ``Sym`` of that text.

    Raises:
        ExpressionError: The text is no condition, or one that our nodes cannot say.
    """
    return as_condition(_shown(text), _read(text, resolve))


def parse_expr(text: str, resolve: Resolve | None = None) -> Expr:
    """The expression that ``text`` states; see ``parse_condition``."""
    return as_number(_shown(text), _read(text, resolve))


def _shown(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."


def _read(text: str, resolve: Resolve | None) -> Expr | Condition:
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(_shown(text), f"it has {len(text)} characters, more than {MOST_CHARACTERS}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        result = _Reader(_shown(text), resolve).node(tree.body, 0)
    except ExpressionError:
        raise
    except SyntaxError as error:
        raise ExpressionError(_shown(text), f"it is not a Python expression ({error.msg})") from error
    except (RecursionError, MemoryError) as error:
        raise ExpressionError(_shown(text), "it is nested too deeply") from error
    except (ValueError, FunctionError) as error:
        raise ExpressionError(_shown(text), str(error)) from error
    if size(result) > MOST_NODES:
        raise ExpressionError(_shown(text), f"it grows to more than {MOST_NODES} operations")
    return result


class _Reader:
    """Walks one parsed text; ``depth`` counts how deep a node lies."""

    def __init__(self, text: str, resolve: Resolve | None) -> None:
        self.text = text
        self.resolve = resolve
        self.sources: dict[str, Expr] = {}

    def error(self, why: str) -> ExpressionError:
        return ExpressionError(self.text, why)

    def expr(self, node: ast.expr, depth: int) -> Expr:
        return self.number(node, self.node(node, depth))

    def number(self, node: ast.expr, result: Expr | Condition) -> Expr:
        if is_condition(result):
            raise self.error(f"{brief(node)} is a condition where a number is needed")
        return result  # type: ignore[return-value]

    def condition(self, node: ast.expr, depth: int) -> Condition:
        result = self.node(node, depth)
        if not is_condition(result):
            raise self.error(f"{brief(node)} is a number where a condition is needed")
        return result  # type: ignore[return-value]

    def node(self, node: ast.expr, depth: int) -> Expr | Condition:
        if depth > MOST_DEPTH:
            raise self.error("it is nested too deeply")
        match node:
            case ast.Constant(value):
                return self.constant(value)
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self.source(node)
            case ast.UnaryOp(ast.USub(), operand):
                return build.neg(self.expr(operand, depth + 1))
            case ast.UnaryOp(ast.UAdd(), operand):
                return self.expr(operand, depth + 1)
            case ast.UnaryOp(ast.Not(), operand):
                return negate(self.condition(operand, depth + 1))
            case ast.UnaryOp(ast.Invert(), operand):
                turned: Any = self.node(operand, depth + 1)
                return negate(turned) if is_condition(turned) else build.sub(build.neg(turned), 1)
            case ast.BinOp():
                return self.operation(node, depth)
            case ast.BoolOp(op, values):
                join = all_of if isinstance(op, ast.And) else any_of
                return join([self.condition(value, depth + 1) for value in values])
            case ast.Compare(left, ops, comparators):
                return self.comparison(left, ops, comparators, depth)
            case ast.IfExp(test, body, orelse):
                return build_functions.where(
                    self.condition(test, depth + 1), self.expr(body, depth + 1), self.expr(orelse, depth + 1)
                )
            case ast.Call():
                return self.call(node, depth)
            case _:
                raise self.error(f"{brief(node)} has no meaning in a guard")

    def constant(self, value: object) -> Expr | Condition:
        if isinstance(value, bool):
            return Truth(value)
        if isinstance(value, int):
            if value.bit_length() > 3 * MOST_DIGITS:
                raise self.error(f"it has a number of more than {MOST_DIGITS} digits")
            return build.number(value)
        if isinstance(value, float) and isfinite(value):
            return build.number(Fraction(value))
        shown = repr(value)
        raise self.error(f"{shown if len(shown) <= 40 else shown[:37] + '...'} is no number")

    def operation(self, node: ast.BinOp, depth: int) -> Expr | Condition:
        # A long sum is a long chain to the left: walk it here, so that its length is no depth.
        kinds = _CHAINED.get(type(node.op), ())
        chain, first = [(node.op, node.right)], node.left
        while isinstance(first, ast.BinOp) and isinstance(first.op, kinds):
            chain.append((first.op, first.right))
            first = first.left
        parts: list[Any] = [self.node(part, depth + 1) for part in (first, *(right for _, right in reversed(chain)))]
        if isinstance(node.op, ast.BitAnd | ast.BitOr) and any(map(is_condition, parts)):
            if not all(map(is_condition, parts)):
                raise self.error(f"{brief(node)} works on the bits of a condition")
            return all_of(parts) if isinstance(node.op, ast.BitAnd) else any_of(parts)
        if any(map(is_condition, parts)):
            raise self.error(f"{brief(node)} computes with a condition")
        if kinds is _SUM:
            signs = [1, *(-1 if isinstance(op, ast.Sub) else 1 for op, _ in reversed(chain))]
            return build.add(*(part if sign > 0 else build.neg(part) for sign, part in zip(signs, parts, strict=True)))
        if type(node.op) not in _ARITHMETIC:
            raise self.error(f"the operator {type(node.op).__name__} has no meaning for sizes")
        result: Expr = reduce(_ARITHMETIC[type(node.op)], parts)
        return result

    def comparison(self, left: ast.expr, ops: list[ast.cmpop], comparators: list[ast.expr], depth: int) -> Condition:
        parts: list[Condition] = []
        for op, right in zip(ops, comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                parts.append(self.membership(left, op, right, depth))
            elif type(op) in _RELATIONS:
                parts.append(self.relation(_RELATIONS[type(op)], left, right, depth))
            else:
                raise self.error(f"the comparison {type(op).__name__} has no meaning for sizes")
            left = right
        return all_of(parts)

    def relation(self, relation: Relation, left: ast.expr, right: ast.expr, depth: int) -> Condition:
        for operand, other, seen in ((right, left, relation), (left, right, FLIPPED[relation])):
            sign = infinity(operand)
            if sign:
                if infinity(other):
                    raise self.error("it compares two infinities")
                self.expr(other, depth + 1)
                return Truth(compare_infinite(seen, sign))
        first, second = self.node(left, depth + 1), self.node(right, depth + 1)
        if is_condition(first) and is_condition(second) and relation in OF_CONDITIONS:
            return OF_CONDITIONS[relation](first, second)  # type: ignore[arg-type]
        return compare(relation, self.number(left, first), self.number(right, second))

    def membership(self, item: ast.expr, op: ast.cmpop, group: ast.expr, depth: int) -> Condition:
        if not isinstance(group, ast.Tuple | ast.List | ast.Set):
            raise self.error(f"{brief(group)} is no list of numbers")
        value = self.expr(item, depth + 1)
        inside = any_of([compare(Relation.EQ, value, self.expr(each, depth + 1)) for each in group.elts])
        return negate(inside) if isinstance(op, ast.NotIn) else inside

    def call(self, node: ast.Call, depth: int) -> Expr | Condition:
        name = function_name(node.func)
        if name is None or (name == "len" and len(node.args) == 1):
            return self.source(node)
        if node.keywords:
            raise self.error(f"{name} is called with keywords")
        if name in RELATIONS and len(node.args) == 2:
            return self.relation(RELATIONS[name], node.args[0], node.args[1], depth)
        if name == "Piecewise":
            return select([self.branch(arg, depth) for arg in node.args])
        if name in _INFINITIES:
            raise self.error("it computes with infinity")
        return call_function(name, [self.node(arg, depth + 1) for arg in node.args])

    def branch(self, node: ast.expr, depth: int) -> tuple[Expr, Condition]:
        if not (isinstance(node, ast.Tuple) and len(node.elts) == 2):
            raise self.error("a branch of Piecewise is no pair")
        return self.expr(node.elts[0], depth + 1), self.condition(node.elts[1], depth + 1)

    def source(self, node: ast.expr) -> Expr:
        if not is_source(node, 0):
            raise self.error(f"{brief(node)} is no size of an input")
        if isinstance(node, ast.Name) and node.id in _INFINITIES:
            raise self.error("it computes with infinity")
        text = source_text(node)
        if text not in self.sources:
            self.sources[text] = Sym(text) if self.resolve is None else self.resolve(text)
        return self.sources[text]
