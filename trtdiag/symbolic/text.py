"""Prints expressions and conditions as readable Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from trtdiag.symbolic.build import Number, add, linear_terms
from trtdiag.symbolic.expr import (
    Add,
    And,
    Ceil,
    Compare,
    Condition,
    Expr,
    Floor,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Num,
    Or,
    Pow,
    Relation,
    Sym,
    TrueDiv,
    Trunc,
    Truth,
    Where,
)
from trtdiag.symbolic.float_factors import inexact
from trtdiag.symbolic.size_names import home_of

# How tightly a text binds, as in Python; a child that binds less than its place asks gets parentheses.
_CHOICE, _OR, _AND, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(9)

_MOST_TIMES_DECIMAL = 16
_DIVIDED = {FloorDiv: "//", Mod: "%", TrueDiv: "/"}

Names = Mapping[str, str]


def to_text(node: Expr | Condition, names: Names | None = None) -> str:
    """``node`` in Python; ``names`` says what to write for a symbol (its own name where absent)."""
    return _text(node, {} if names is None else names)[0]  # SizeNames without a name is empty, and has homes


_SYMBOL = re.compile(  # zuf0: a float from data
    r"(?:(?<![\w.*])(?P<factor>\d+)\*)?\b(?P<symbol>z?[su]f?\d+)\b(?!\()(?: \+ (?P<plus>\d+)\b(?!\*|\.\d| ?[/%]))?"
)


def in_words(text: str, names: Names) -> str:
    """``text`` with every graph symbol of ``names`` in it as its name; a symbol that is also somebody's name stays."""
    taken = set(names.values())

    def said(found: re.Match[str]) -> str:
        symbol, factor, plus = found["symbol"], found["factor"], found["plus"]
        home = home_of(names, symbol)
        if symbol in taken or (home is None and symbol not in names):
            return found[0]
        more = f" + {plus}" if plus else ""
        if home is None or text[found.end() :].startswith("**"):
            return f"{f'{factor}*' if factor else ''}{names.get(symbol, symbol)}{more}"
        multiple = home.times(int(factor or 1))
        if plus and home.offset and text[: found.start()].rstrip()[-1:] not in {*"-*/%"}:
            multiple, more = add(multiple, int(plus)), ""
        plain, binds = _text(multiple, {})
        return (plain if binds == _ATOM else f"({plain})") + more

    return _SYMBOL.sub(said, text)


def _at(node: Expr | Condition, names: Names, level: int) -> str:
    text, binds = _text(node, names)
    return text if binds >= level else f"({text})"


def _text(node: Expr | Condition, names: Names) -> tuple[str, int]:
    match node:
        case Num(value):
            return _number(value)
        case Sym(name):
            home = home_of(names, name)
            return (names.get(name, name), _ATOM) if home is None else _text(home.times(1), {})
        case Add(args):
            told = _by_dims(node, names)
            return (_sum(told.args, names), _SUM) if isinstance(told, Add) else _text(told, names)
        case Mul(args):
            told = _by_dim(node, names)
            return _product(args, names) if told is node else _text(told, names)
        case FloorDiv(left, right) | Mod(left, right) | TrueDiv(left, right):
            return _quotient(left, _DIVIDED[type(node)], right, names)
        case Pow(base, exponent):
            return f"{_at(base, names, _ATOM)}**{_at(exponent, names, _POWER)}", _POWER
        case Floor(arg) | Ceil(arg) | Trunc(arg):
            return f"{type(node).__name__.lower()}({_text(arg, names)[0]})", _ATOM
        case Min(args) | Max(args):
            return f"{type(node).__name__.lower()}({', '.join(_text(arg, names)[0] for arg in args)})", _ATOM
        case Where(condition, then, otherwise):
            parts = _at(then, names, _OR), _at(condition, names, _OR), _at(otherwise, names, _CHOICE)
            return "{} if {} else {}".format(*parts), _CHOICE
        case Truth(value):
            return str(value), _ATOM
        case Compare(relation, Sym(name), Num(int(value))) if (home := home_of(names, name)) is not None:
            return f"{home.site} {relation.value} {home.size(value)}", _COMPARE
        case Compare(relation, left, right):
            sides = _by_dims(left, names), _by_dims(right, names)
            if sides != (left, right):  # a number that both sides have now, the right one takes
                number = linear_terms(sides[0])[1]
                left, right = (add(side, -number) for side in sides)
            return f"{_at(left, names, _SUM)} {relation.value} {_at(right, names, _SUM)}", _COMPARE
        case And(args):
            parts_of = _chained(args, names)
            return " and ".join(parts_of), _AND if len(parts_of) > 1 else _COMPARE
        case Or(args):
            return " or ".join(_at(arg, names, _AND) for arg in args), _OR


def _by_dims(node: Expr, names: Names) -> Expr:
    """A sum over the dims that stand for symbols: what a dim has beside its symbol meets the sum's own number."""
    args = node.args if isinstance(node, Add) else (node,)
    terms = [_by_dim(arg, names) for arg in args]
    return node if terms == list(args) else add(*terms)


def _by_dim(term: Expr, names: Names) -> Expr:
    """A multiple of a symbol that nobody named by the dim that it sizes; any other term as it is."""
    terms, _ = linear_terms(term)
    factor, rest = terms[0] if terms else (0, term)
    home = home_of(names, rest.name) if isinstance(rest, Sym) else None
    return term if home is None or not isinstance(factor, int) else home.times(factor)


def _number(value: Number) -> tuple[str, int]:
    if isinstance(value, Fraction):
        decimal = _decimal(value)
        if decimal is not None:
            return repr(decimal), _ATOM if value >= 0 else _SIGN
        return f"{value.numerator} / {value.denominator}", _PRODUCT
    return str(value), _ATOM if value >= 0 else _SIGN


def _sum(args: tuple[Expr, ...], names: Names) -> str:
    """Positive terms first, so that a difference reads ``a - b``."""
    flipped = [_without_sign(arg) for arg in args]
    positive = [_at(arg, names, _PRODUCT) for arg, other in zip(args, flipped, strict=True) if other is None]
    negative = [_at(other, names, _PRODUCT) for other in flipped if other is not None]
    if not positive:
        first = _at(args[0], names, _PRODUCT)
        return " - ".join((first, *negative[1:]))
    return " - ".join((" + ".join(positive), *negative))


def _without_sign(arg: Expr) -> Expr | None:
    """``-arg`` where ``arg`` is written with a minus sign in front."""
    if isinstance(arg, Num) and arg.value < 0:
        return Num(-arg.value)
    if isinstance(arg, Mul) and isinstance(arg.args[0], Num) and arg.args[0].value < 0:
        head, rest = -arg.args[0].value, arg.args[1:]
        if head == 1:
            return rest[0] if len(rest) == 1 else Mul(rest)
        return Mul((Num(head), *rest))
    return None


def _product(args: tuple[Expr, ...], names: Names) -> tuple[str, int]:
    flipped = _without_sign(Mul(args))
    if flipped is not None:
        # A leading minus belongs to the first factor, which is fine for a product but not for a quotient.
        return f"-{_at(flipped, names, _PRODUCT if isinstance(flipped, Mul) else _SIGN)}", _PRODUCT
    head, *rest = args
    divisor: int | float = 1
    before: list[str] = []
    if isinstance(head, Num) and isinstance(head.value, Fraction):
        before, divisor = _factor(head.value)
    else:
        rest = list(args)
    # Quotients and remainders inside a product are always in parentheses: they bind alike and read badly.
    text = "*".join([*before, *(_at(factor, names, _SIGN) for factor in rest)])
    return (text, _PRODUCT) if divisor == 1 else (f"{text} / {divisor}", _PRODUCT)


def _factor(value: Fraction) -> tuple[list[str], int | float]:
    """The factors and the divisor that a fraction is written with: 1.7 as that, not as 7656119366529843 / 2**52."""
    for count in range(1, _MOST_TIMES_DECIMAL + 1) if inexact(value) else ():
        if (decimal := _decimal(value / count)) is not None:
            return [*([str(count)] if count > 1 else []), repr(decimal)], 1
    if (decimal := _decimal(1 / value)) is not None:
        return [], decimal
    return [] if value.numerator == 1 else [str(value.numerator)], value.denominator


def _decimal(value: Fraction) -> float | None:
    """The number where a fraction has too many digits to be read, and is a float exactly."""
    if value.denominator == 1 or not inexact(value) or abs(value) >= 1 << 64:
        return None
    return float(value) if Fraction(float(value)) == value else None


def _quotient(left: Expr, sign: str, right: Expr, names: Names) -> tuple[str, int]:
    plain = isinstance(left, Mul) and not (isinstance(left.args[0], Num) and isinstance(left.args[0].value, Fraction))
    top = _at(left, names, _PRODUCT if plain else _SIGN)
    return f"{top} {sign} {_at(right, names, _POWER)}", _PRODUCT


def _chained(args: tuple[Condition, ...], names: Names) -> list[str]:
    """The parts of an ``And``, with ``low <= x and x <= high`` as one chain."""
    texts: dict[Condition, str] = {}
    chained: set[Condition] = set()
    highs = {arg.left: arg for arg in reversed(args) if isinstance(arg, Compare) and arg.relation is Relation.LE}
    for arg in args:
        texts[arg] = _at(arg, names, _COMPARE)
        upper = highs.get(arg.left) if isinstance(arg, Compare) and arg.relation is Relation.GE else None
        if isinstance(arg, Compare) and upper and isinstance(arg.right, Num) and isinstance(upper.right, Num):
            chained.add(upper)
            texts[arg] = " <= ".join(_at(part, names, _SUM) for part in (arg.right, arg.left, upper.right))
    return [text for arg, text in texts.items() if arg not in chained]
