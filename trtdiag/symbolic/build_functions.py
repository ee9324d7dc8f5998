"""Smart constructors of functions: roundings, powers, least and greatest, choices by a condition."""

from __future__ import annotations

from math import trunc as trunc_number

from trtdiag.symbolic.build import ONE, Number, add, as_expr, mul, number, sub, truediv
from trtdiag.symbolic.expr import (
    Ceil,
    Condition,
    Expr,
    Max,
    Min,
    Mul,
    Num,
    Pow,
    Trunc,
    Truth,
    Where,
)
from trtdiag.symbolic.float_factors import HALF, root_of
from trtdiag.symbolic.tree import is_integer, is_total, order_key

_FOLD_BITS = 4096  # a constant power beyond this stays a Pow


def ceil(operand: Expr | Number) -> Expr:
    """The least integer not below ``operand``."""
    expr = as_expr(operand)
    if isinstance(expr, Num):
        return number(-(-expr.value // 1))
    return expr if is_integer(expr) else Ceil(expr)


def trunc(operand: Expr | Number) -> Expr:
    """``operand`` without its fraction (towards zero)."""
    expr = as_expr(operand)
    if isinstance(expr, Num):
        return number(trunc_number(expr.value))
    return expr if is_integer(expr) else Trunc(expr)


def power(base: Expr | Number, exponent: Expr | Number) -> Expr:
    """``base ** exponent``; a negative constant exponent becomes a quotient."""
    root, height = as_expr(base), as_expr(exponent)
    if height == Num(HALF) and isinstance(root, Num) and root.value >= 0:
        return number(root_of(root.value))
    if not (isinstance(height, Num) and isinstance(height.value, int)):
        return Pow(root, height)
    count = height.value
    if count < 0:
        return truediv(1, power(root, -count))
    if count == 0:
        return ONE if is_total(root) else add(mul(0, root), 1)
    if count == 1:
        return root
    if isinstance(root, Num):
        bits = max(abs(root.value.numerator), root.value.denominator).bit_length() * count
        return number(root.value**count) if bits <= _FOLD_BITS or root.value in (-1, 0, 1) else Pow(root, height)
    if isinstance(root, Pow) and isinstance(root.exponent, Num) and isinstance(root.exponent.value, int):
        return power(root.base, mul(root.exponent, count))
    if isinstance(root, Mul):
        return mul(*(power(factor, count) for factor in root.args))
    return Pow(root, height)


def minimum(*operands: Expr | Number) -> Expr:
    """The least operand."""
    return _extreme(Min, -1, operands)


def maximum(*operands: Expr | Number) -> Expr:
    """The greatest operand."""
    return _extreme(Max, 1, operands)


def _extreme(kind: type[Min | Max], sign: int, operands: tuple[Expr | Number, ...]) -> Expr:
    kept: list[Expr] = []
    for operand in operands:
        expr = as_expr(operand)
        for part in expr.args if isinstance(expr, kind) else (expr,):
            for index, other in enumerate(kept):
                # Operands that differ by a constant are decided now (this also removes duplicates).
                distance = sub(part, other)
                if isinstance(distance, Num):
                    kept[index] = part if sign * distance.value > 0 else other
                    break
            else:
                kept.append(part)
    kept.sort(key=order_key)
    return kept[0] if len(kept) == 1 else kind(tuple(kept))


def where(condition: Condition, then: Expr | Number, otherwise: Expr | Number) -> Expr:
    """``then`` where ``condition`` holds, ``otherwise`` elsewhere."""
    first, second = as_expr(then), as_expr(otherwise)
    if isinstance(condition, Truth):
        return first if condition.value else second
    return first if first == second and is_total(condition) else Where(condition, first, second)
