"""Arithmetic of sizes as layers: each operation of an expression, over tensors that hold its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from math import lcm

import torch

from trtdiag.convert.refusal import refuse
from trtdiag.network import DType, NetworkBuilder, Value
from trtdiag.network.layers import Cast, ElementWise, ElementWiseOperation as Op, Select, Unary, UnaryOperation
from trtdiag.symbolic import Condition, Expr, Num, Relation, Sym, floor, is_integer, linear_terms, mul, neg, to_text
from trtdiag.symbolic.expr import (
    Add,
    And,
    Ceil,
    Compare,
    Floor,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Pow,
    TrueDiv,
    Trunc,
    Truth,
    Where,
)

_MOST_DIVISOR = 1 << 10
"""Own choice: factors such as 1.5 and 0.625 stay exact in 32 bits for sizes up to two million."""

_BINARY: dict[type, Op] = {Add: Op.SUM, Mul: Op.PROD, Min: Op.MIN, Max: Op.MAX, And: Op.AND, Or: Op.OR}
# The relation as layers, and whether its answer is turned round.
_RELATIONS = {
    Relation.EQ: (Op.EQUAL, False),
    Relation.NE: (Op.EQUAL, True),
    Relation.LT: (Op.LESS, False),
    Relation.GE: (Op.LESS, True),
    Relation.GT: (Op.GREATER, False),
    Relation.LE: (Op.GREATER, True),
}


class SizeArithmetic:
    """Writes the last operation of expressions as layers on vectors of one element.

    Args:
        builder: Where the layers go.
        index: The dtype of sizes in the network.
        element: Gives the vector of a part of an expression.
    """

    def __init__(self, builder: NetworkBuilder, index: DType, element: Callable[[Expr | Condition], Value]) -> None:
        self._builder, self._index, self._element = builder, index, element

    def computed(self, expr: Expr | Condition) -> Value:
        """An expression by its last operation."""
        match expr:
            case Num(int() as value):
                return self.numbers([value])
            case Truth(value):
                return self._builder.constant(torch.tensor([value]))
            case Add(args) | Mul(args) | Min(args) | Max(args) | And(args) | Or(args):
                return self._folded(_BINARY[type(expr)], [self._element(arg) for arg in args])
            case FloorDiv(left, right) | Floor(TrueDiv(left, right)):
                return self.two(Op.FLOOR_DIV, self._element(left), self._element(right))
            case Trunc(TrueDiv(left, right)):
                return self.two(Op.DIV, self._element(left), self._element(right))
            case Floor(arg) | Trunc(arg) if (divisor := _common_divisor(arg)) is not None:
                op = Op.FLOOR_DIV if isinstance(expr, Floor) else Op.DIV
                return self.two(op, self._element(mul(divisor, arg)), self.numbers([divisor]))
            case Ceil(TrueDiv(left, right)):
                below = self.two(Op.FLOOR_DIV, self._negated(self._element(left)), self._element(right))
                return self._negated(below)
            case Ceil(arg) if _common_divisor(arg) is not None:
                return self._negated(self._element(floor(neg(arg))))
            case Mod(left, right):
                a, b = self._element(left), self._element(right)
                return self.two(Op.SUB, a, self.two(Op.PROD, self.two(Op.FLOOR_DIV, a, b), b))
            case Pow(base, Num(int() as times)) if 1 <= times <= 8:
                return self._folded(Op.PROD, [self._element(base)] * times)
            case Compare(relation, left, right):
                op, turned = _RELATIONS[relation]
                whole = (_common_divisor(left) or 1) * (_common_divisor(right) or 1)
                answer = self.two(op, self._element(mul(whole, left)), self._element(mul(whole, right)))
                return self._builder.add_single(Unary(UnaryOperation.NOT), answer) if turned else answer
            case Where(condition, then, otherwise):
                read = [self._element(part) for part in (condition, then, otherwise)]
                return self._builder.add_single(Select(), *read)
        if isinstance(expr, Sym):
            raise refuse("size-not-at-hand", f"no tensor that it reads has a dim that gives {to_text(expr)}")
        raise refuse("size-expression", f"the size {to_text(expr)} is no arithmetic of integers")

    def real(self, expr: Expr) -> Value:
        """An expression that need not be whole, as a vector of one float32."""
        match expr:
            case Num(value):
                return self._builder.constant(torch.tensor([float(value)], dtype=torch.float32))
            case Add(args) | Mul(args) | Min(args) | Max(args) if not is_integer(expr):
                return self._folded(_BINARY[type(expr)], [self.real(arg) for arg in args])
            case TrueDiv(left, right):
                return self.two(Op.DIV, self.real(left), self.real(right))
        return self._builder.add_single(Cast(DType.FLOAT32), self._element(expr))

    def line(self, size: Value, offset: int, ratio: Fraction, constant: int) -> Value:
        """``(size - offset) * ratio + constant``, which is whole."""
        result = size
        if offset:
            result = self.two(Op.SUB, result, self.numbers([offset]))
        if ratio.numerator != 1:
            result = self.two(Op.PROD, result, self.numbers([ratio.numerator]))
        if ratio.denominator != 1:
            result = self.two(Op.FLOOR_DIV, result, self.numbers([ratio.denominator]))
        return self.two(Op.SUM, result, self.numbers([constant])) if constant else result

    def numbers(self, values: Sequence[int]) -> Value:
        """Numbers as a vector."""
        for value in values:
            if not self._index.holds(value):
                raise refuse("number-range", f"the size {value} does not fit into {self._index.value}")
        return self._builder.constant(torch.tensor(values, dtype=self._index.torch))

    def two(self, op: Op, left: Value, right: Value) -> Value:
        """An ElementWise layer."""
        return self._builder.add_single(ElementWise(op), left, right)

    def _folded(self, op: Op, parts: Sequence[Value]) -> Value:
        return reduce(lambda left, right: self.two(op, left, right), parts)

    def _negated(self, value: Value) -> Value:
        return self.two(Op.SUB, self.numbers([0]), value)


def _common_divisor(expr: Expr) -> int | None:
    """The number that makes a sum of fractions whole, ``None`` where it is so great that products could overflow."""
    terms, constant = linear_terms(expr)
    found = lcm(*(Fraction(number).denominator for number in (constant, *(factor for factor, _ in terms))))
    return found if 1 < found <= _MOST_DIVISOR else None
