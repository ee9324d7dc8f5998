"""Checks on sizes that only data decides, from what an error text says of them."""

from __future__ import annotations

import re
from itertools import permutations

from trtdiag.dims.torch_text.facts import TextGuard
from trtdiag.fixdims.fix import DataCheck
from trtdiag.graph.source import Stack
from trtdiag.symbolic import (
    ExpressionError,
    Relation,
    conjuncts,
    free_symbols,
    negate,
    parse_condition,
    substitute,
    to_text,
)
from trtdiag.symbolic.expr import And, Compare, Condition, Num, Or, Sym

_TO_INT = re.compile(r"\b(?:TruncToInt|Trunc)\(")
_BELOW_ZERO = re.compile(r"(?P<value>.+) < 0")
_FLOAT_SYMBOL = re.compile(r"\bz[su]?f\d+\b")
_KEYWORDS = ("if ", "elif ", "while ", "assert ", "return ")
_MOST_NAMES = 3
_MOST_CODE_CHARACTERS = 300


def data_checks(guard: TextGuard) -> tuple[DataCheck, ...]:
    """The ``torch._check`` lines that decide a data-dependent condition, in the user's names where the text gives them.

    Of a condition ``==`` the check says the opposite, as a size that data decides is seldom that one value, and of a
    condition that it is negative.  The note says what else it may be.  Python's ``and`` and ``or`` ask for a truth that
    such a size has not: ``and`` becomes two checks, ``or`` the operator ``|``.
    """
    open_ = guard.kind == "data-dependent"
    advice = [text for text in guard.advice if text.startswith("torch._check(")]
    if guard.condition is None:
        return (_of_fraction(guard, advice),)
    unlikely = open_ and _is_unlikely(guard.condition)
    if len(advice) == 2:
        code, other = (advice[1], advice[0]) if unlikely else advice
        return (DataCheck(code, guard.stack, guard.text, False, _note(other, ())),)
    names = _names_in_code(guard.condition, guard.stack)
    condition = substitute(guard.condition, {symbol: Sym(name) for symbol, name in names.items()})
    taken, left_out = (negate(condition), condition) if unlikely else (condition, negate(condition))
    other = "; ".join(_codes(left_out)) if open_ else ""
    left = tuple(sorted(free_symbols(guard.condition) - names.keys()))
    return tuple(DataCheck(code, guard.stack, guard.text, False, _note(other, left)) for code in _codes(taken))


def _codes(condition: Condition) -> list[str]:
    """One ``torch._check`` for each part of the condition."""
    return [f"torch._check({_operators(part)})" for part in conjuncts(condition)]


def _operators(condition: Condition) -> str:
    """The condition with ``&`` and ``|`` in the place of ``and`` and ``or``."""
    match condition:
        case Or(parts):
            return " | ".join(f"({_operators(part)})" for part in parts)
        case And(parts):
            return " & ".join(f"({_operators(part)})" for part in parts)
        case _:
            return to_text(condition)


def _is_unlikely(condition: Condition) -> bool:
    """Whether it asks a size for one value, or for less than 0."""
    match condition:
        case Compare(Relation.EQ, _, _):
            return True
        case Compare(Relation.LE, _, Num(value)):
            return value < 0
        case Compare(Relation.LT, _, Num(value)):
            return value <= 0
        case _:
            return False


def _of_fraction(guard: TextGuard, advice: list[str]) -> DataCheck:
    """The check on a number with a fraction, in torch's own words with Python's functions."""
    text = _TO_INT.sub("int(", guard.text)
    below = _BELOW_ZERO.fullmatch(text)
    code, other = (f"torch._check({text})", "")
    if below is not None and guard.kind == "data-dependent":
        code, other = f"torch._check({below['value']} >= 0)", code
    if len(advice) == 2:
        code, other = (advice[1], advice[0]) if below is not None else (advice[0], advice[1])
    symbols = ", ".join(sorted(set(_FLOAT_SYMBOL.findall(guard.text))))
    note = f"{symbols} stands for a number with a fraction from data (item() of a float tensor)"
    return DataCheck(
        code, guard.stack, guard.text, False, f"{note}; if your data is the other way: {other}" if other else note
    )


def _note(other: str, symbols: tuple[str, ...]) -> str:
    """What the check assumes, and which of its names the reader has to put in."""
    many = len(symbols) > 1
    names = f"{', '.join(symbols)} stand{'' if many else 's'} for {'sizes' if many else 'a size'} from data"
    texts = [names] if symbols else []
    if other:
        texts.append(f"if your data is the other way: {other}")
    return "; ".join(texts) or "the program needs it to hold"


def _names_in_code(condition: Condition, stack: Stack) -> dict[str, str]:
    """Symbol -> the variable in the user's line, where that line states the condition or its opposite."""
    frame = stack.best
    code = "" if frame is None else frame.code.strip()[:_MOST_CODE_CHARACTERS]
    for keyword in _KEYWORDS:
        code = code.removeprefix(keyword)
    try:
        written = parse_condition(code.rstrip(": "))
    except ExpressionError:
        return {}
    symbols, variables = sorted(free_symbols(condition)), sorted(free_symbols(written))
    if not variables or len(symbols) != len(variables) or len(symbols) > _MOST_NAMES:
        return {}
    for order in permutations(variables):
        renamed = substitute(condition, {s: Sym(v) for s, v in zip(symbols, order, strict=True)})
        if written in (renamed, negate(renamed)):
            return dict(zip(symbols, order, strict=True))
    return {}
