"""Smart constructors of expressions: equal sums, products and remainders come out as equal trees.

The normal form is light.  Sums and products are flat, sorted and have their constants folded and like terms
collected; a number times a sum is distributed; ``//`` and ``%`` have positive constant divisors, give up what the
divisor divides, and share no common factor with it.  A subtree that could be undefined (divides by a symbol) is never
dropped, so an expression is defined exactly where it was before.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import gcd, lcm, trunc as trunc_number

from trtdiag.symbolic.expr import (
    Add,
    Expr,
    Floor,
    FloorDiv,
    Mod,
    Mul,
    Num,
    Pow,
    Sym,
    TrueDiv,
)
from trtdiag.symbolic.float_factors import as_float, inexact
from trtdiag.symbolic.tree import is_integer, is_total, order_key

Number = int | Fraction

ZERO = Num(0)
ONE = Num(1)


def number(value: Number) -> Num:
    """``value`` as a node; an integral fraction becomes an ``int``."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return Num(value.numerator)
    return Num(int(value) if isinstance(value, int) else value)


def as_expr(value: Expr | Number) -> Expr:
    """``value`` itself, or the node of a plain number."""
    return number(value) if isinstance(value, int | Fraction) else value


def linear_terms(expr: Expr) -> tuple[list[tuple[Number, Expr]], Number]:
    """``expr`` as a list of (coefficient, rest) and a constant; no rest is a number or a sum."""
    terms: list[tuple[Number, Expr]] = []
    constant: Number = 0
    for term in expr.args if isinstance(expr, Add) else (expr,):
        if isinstance(term, Num):
            constant += term.value
        else:
            terms.append(_coefficient(term))
    return terms, constant


def affine(expr: Expr) -> tuple[str, int, int] | None:
    """``(symbol, scale, offset)`` of ``scale*symbol + offset`` with whole numbers; ``None`` for anything else."""
    terms, constant = linear_terms(expr)
    if len(terms) != 1 or not isinstance(terms[0][1], Sym):
        return None
    scale = terms[0][0]
    if not isinstance(scale, int) or not isinstance(constant, int) or scale == 0:
        return None
    return terms[0][1].name, scale, constant


def _coefficient(term: Expr) -> tuple[Number, Expr]:
    if isinstance(term, Mul) and isinstance(term.args[0], Num):
        rest = term.args[1:]
        return term.args[0].value, rest[0] if len(rest) == 1 else Mul(rest)
    return 1, term


def add(*operands: Expr | Number) -> Expr:
    """The sum, with like terms collected."""
    if len(operands) == 1:
        return as_expr(operands[0])
    collected: dict[Expr, Number] = {}
    constant: Number = 0
    for operand in operands:
        terms, number_part = linear_terms(as_expr(operand))
        constant += number_part
        for coefficient, rest in terms:
            collected[rest] = collected.get(rest, 0) + coefficient
    return _sum(collected.items(), constant)


def _sum(terms: Iterable[tuple[Expr, Number]], constant: Number) -> Expr:
    kept = [(rest, coefficient) for rest, coefficient in terms if coefficient != 0 or not is_total(rest)]
    kept.sort(key=lambda term: order_key(term[0]))
    parts = [_scaled(coefficient, rest) for rest, coefficient in kept]
    if constant != 0 or not parts:
        parts.append(number(constant))
    return parts[0] if len(parts) == 1 else Add(tuple(parts))


def _scaled(coefficient: Number, rest: Expr) -> Expr:
    if coefficient == 1:
        return rest
    head = number(coefficient)
    return Mul((head, *rest.args)) if isinstance(rest, Mul) else Mul((head, rest))


def neg(operand: Expr | Number) -> Expr:
    """``-operand``."""
    return mul(-1, operand)


def sub(left: Expr | Number, right: Expr | Number) -> Expr:
    """``left - right``."""
    return add(left, neg(right))


def mul(*operands: Expr | Number) -> Expr:
    """The product, with equal factors as powers."""
    coefficient: Number = 1
    powers: dict[Expr, int] = {}
    for operand in operands:
        expr = as_expr(operand)
        for factor in expr.args if isinstance(expr, Mul) else (expr,):
            if isinstance(factor, Num):
                coefficient *= factor.value
            elif (
                isinstance(factor, Pow) and isinstance(factor.exponent, Num) and isinstance(factor.exponent.value, int)
            ):
                powers[factor.base] = powers.get(factor.base, 0) + factor.exponent.value
            else:
                powers[factor] = powers.get(factor, 0) + 1
    if coefficient == 0:
        powers = {base: 1 for base in powers if not is_total(base)}
    factors = [base if count == 1 else Pow(base, Num(count)) for base, count in powers.items()]
    if not factors:
        return number(coefficient)
    if len(factors) == 1 and isinstance(factors[0], Add):
        terms, constant = linear_terms(factors[0])
        return _sum(((rest, coefficient * part) for part, rest in terms), coefficient * constant)
    factors.sort(key=order_key)
    if coefficient != 1:
        factors.insert(0, number(coefficient))
    return factors[0] if len(factors) == 1 else Mul(tuple(factors))


def whole_parts(*exprs: Expr) -> tuple[int, list[Expr]] | None:
    """The least factor that makes all ``exprs`` integer, and the scaled ones; ``None`` where there is none."""
    factor = 1
    for expr in exprs:
        terms, constant = linear_terms(expr)
        if not all(is_integer(rest) for _, rest in terms):
            return None
        factor = lcm(factor, constant.denominator, *(part.denominator for part, _ in terms))
    return factor, [mul(factor, expr) for expr in exprs] if factor != 1 else list(exprs)


def _content(expr: Expr) -> int:
    terms, constant = linear_terms(expr)
    return gcd(int(constant), *(int(part) for part, _ in terms))


def floordiv(left: Expr | Number, right: Expr | Number) -> Expr:
    """``left // right`` (towards minus infinity)."""
    top, bottom = as_expr(left), as_expr(right)
    if isinstance(bottom, Num) and bottom.value == 0:
        return FloorDiv(top, bottom)
    scaled = whole_parts(top, bottom)
    if scaled is None:
        return floor(top) if bottom == ONE else FloorDiv(top, bottom)
    if inexact(scaled[0]):
        return Floor(truediv(top, bottom))
    top, bottom = scaled[1]
    if isinstance(bottom, Num):
        divisor = int(bottom.value)
        return _floordiv_constant(top, divisor) if divisor > 0 else _floordiv_constant(neg(top), -divisor)
    shared = gcd(_content(top), _content(bottom))
    if shared > 1:
        top, bottom = mul(Fraction(1, shared), top), mul(Fraction(1, shared), bottom)
    return FloorDiv(top, bottom)


def _floordiv_constant(top: Expr, divisor: int) -> Expr:
    terms, constant = linear_terms(top)
    whole: list[tuple[Expr, Number]] = []
    rest: list[tuple[Expr, Number]] = []
    for part, expr in terms:
        quotient, remainder = divmod(int(part), divisor)
        whole.append((expr, quotient)) if remainder == 0 else rest.append((expr, part))
    outside = trunc_number(Fraction(constant, divisor)) if rest else int(constant) // divisor
    outer = _sum(whole, outside)
    if not rest:
        return outer
    inside = int(constant) - outside * divisor
    shared = gcd(divisor, *(int(part) for _, part in rest))
    if shared > 1:
        reduced = _sum(((expr, int(part) // shared) for expr, part in rest), inside // shared)
        return add(outer, _floordiv_constant(reduced, divisor // shared))
    expr, part = rest[0]
    step = _divisor(expr, FloorDiv)
    if len(rest) == 1 and part == 1 and isinstance(expr, FloorDiv) and step:
        return add(outer, _floordiv_constant(add(expr.left, inside * step), divisor * step))
    return add(outer, FloorDiv(_sum(rest, inside), Num(divisor)))


def mod(left: Expr | Number, right: Expr | Number) -> Expr:
    """``left % right`` with the sign of ``right``."""
    top, bottom = as_expr(left), as_expr(right)
    if isinstance(bottom, Num) and bottom.value == 0:
        return Mod(top, bottom)
    scaled = whole_parts(top, bottom)
    if scaled is None:
        return Mod(top, bottom)
    factor, (top, bottom) = scaled
    if isinstance(bottom, Num):
        divisor = int(bottom.value)
        result = _mod_constant(top, divisor) if divisor > 0 else neg(_mod_constant(neg(top), -divisor))
    else:
        shared = gcd(_content(top), _content(bottom)) or 1
        result = mul(shared, Mod(mul(Fraction(1, shared), top), mul(Fraction(1, shared), bottom)))
    return mul(Fraction(1, factor), result) if factor != 1 else result


def _divisor(expr: Expr, kind: type[FloorDiv | Mod]) -> int:
    """The constant that ``expr``, if it is of that ``kind``, divides by; 0 where there is none (or it is 0)."""
    if not isinstance(expr, kind):
        return 0
    right = expr.right
    return right.value if isinstance(right, Num) and isinstance(right.value, int) else 0


def _centred(value: int, divisor: int) -> int:
    rest = value % divisor
    return rest - divisor if 2 * rest > divisor else rest


def _mod_constant(top: Expr, divisor: int) -> Expr:
    terms, constant = linear_terms(top)
    unwrapped = False
    reduced: list[Expr | Number] = [constant]
    for part, expr in terms:
        inner = _divisor(expr, Mod)
        if isinstance(expr, Mod) and inner and inner % divisor == 0:
            expr, unwrapped = expr.left, True
        reduced.append(mul(_centred(int(part), divisor), expr))
    if unwrapped:
        return _mod_constant(add(*reduced), divisor)
    kept = [(expr, _centred(int(part), divisor)) for part, expr in terms]
    shared = gcd(divisor, *(part for _, part in kept))
    if all(part == 0 for _, part in kept):
        return _sum(kept, int(constant) % divisor)
    if shared > 1:
        inside, outside = divmod(int(constant), shared)
        smaller = _sum(((expr, part // shared) for expr, part in kept), inside)
        return add(mul(shared, _mod_constant(smaller, divisor // shared)), outside)
    inside = _centred(int(constant), divisor)
    expr, part = kept[0]
    if len(kept) == 1 and part == 1 and inside == 0 and 0 < _divisor(expr, Mod) < divisor:
        return expr
    return Mod(_sum(kept, inside), Num(divisor))


def truediv(left: Expr | Number, right: Expr | Number) -> Expr:
    """``left / right``, exact; by a number it is a product with a fraction, of two numbers a float."""
    top, bottom = as_expr(left), as_expr(right)
    if isinstance(bottom, Num) and bottom.value != 0:
        if isinstance(top, Num):
            return number(as_float(Fraction(top.value) / bottom.value))
        return mul(1 / Fraction(bottom.value), top)
    return TrueDiv(top, bottom)


def floor(operand: Expr | Number) -> Expr:
    """The greatest integer not above ``operand``."""
    expr = as_expr(operand)
    if is_integer(expr):
        return expr
    if isinstance(expr, TrueDiv) and whole_parts(expr.left, expr.right) is not None:
        return floordiv(expr.left, expr.right)
    scaled = whole_parts(expr)
    if scaled is None or inexact(scaled[0]):  # a float's product is computed and rounded as one
        return Floor(expr)
    return floordiv(scaled[1][0], scaled[0])


def symbol(name: str) -> Sym:
    """The symbol ``name``."""
    return Sym(name)
