"""Checks on sizes that only data decides, from what an error text says of them."""

from __future__ import annotations

from itertools import permutations

from trtdiag.dims.torch_text import TextGuard
from trtdiag.fixdims.fix import DataCheck
from trtdiag.graph.source import Stack
from trtdiag.symbolic import ExpressionError, Relation, free_symbols, negate, parse_condition, substitute, to_text
from trtdiag.symbolic.expr import Compare, Condition, Sym

_KEYWORDS = ("if ", "elif ", "while ", "assert ", "return ")
_MOST_NAMES = 3
_MOST_CODE_CHARACTERS = 300


def data_check(guard: TextGuard) -> DataCheck:
    """The ``torch._check`` that decides a data-dependent condition, in the user's names where the text gives them.

    Of a condition ``==`` the check says the opposite: a size that data decides is seldom that one value.  The note
    says what else it may be.
    """
    assert guard.condition is not None
    open_ = guard.kind == "data-dependent"
    unequal = open_ and isinstance(guard.condition, Compare) and guard.condition.relation is Relation.EQ
    advice = [text for text in guard.advice if text.startswith("torch._check(")]
    if len(advice) == 2:
        code, other = (advice[1], advice[0]) if unequal else advice
        return DataCheck(code, guard.stack, guard.text, False, _note(other, ()))
    names = _names_in_code(guard.condition, guard.stack)
    condition = substitute(guard.condition, {symbol: Sym(name) for symbol, name in names.items()})
    both = [f"torch._check({to_text(each)})" for each in (condition, negate(condition))]
    code, other = reversed(both) if unequal else both
    left = tuple(sorted(free_symbols(guard.condition) - names.keys()))
    return DataCheck(code, guard.stack, guard.text, False, _note(other if open_ else "", left))


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
