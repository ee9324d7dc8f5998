"""What a tree tells without values: children, symbols, order, whether it is integer, whether always defined."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any

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
    Sym,
    TrueDiv,
    Trunc,
    Truth,
    Where,
)

_NUMBERS = (Num, Sym, Pow, Mul, FloorDiv, Mod, Add, TrueDiv, Floor, Ceil, Trunc, Min, Max, Where)
_CONDITIONS = (Truth, Compare, And, Or)
_RANK: dict[type, int] = {kind: rank for rank, kind in enumerate((*_NUMBERS, *_CONDITIONS))}


def is_condition(node: Expr | Condition) -> bool:
    """Whether ``node`` is true or false rather than a number."""
    return isinstance(node, _CONDITIONS)


_PARTS: dict[type, Callable[[Any], tuple[Expr | Condition, ...]]] = {
    **dict.fromkeys((Num, Sym, Truth), lambda _: ()),
    **dict.fromkeys((Add, Mul, Min, Max, And, Or), attrgetter("args")),
    **dict.fromkeys((FloorDiv, Mod, TrueDiv, Compare), attrgetter("left", "right")),
    **dict.fromkeys((Floor, Ceil, Trunc), lambda node: (node.arg,)),
    Pow: attrgetter("base", "exponent"),
    Where: attrgetter("condition", "then", "otherwise"),
}


def children(node: Expr | Condition) -> tuple[Expr | Condition, ...]:
    """The operands of ``node`` in order; a ``Where`` begins with its condition."""
    return _PARTS[type(node)](node)


def order_key(node: Expr | Condition) -> tuple[Any, ...]:
    """A key that sorts any nodes: symbols first, then products, quotients, remainders, sums, the rest."""
    try:
        return node._key  # noqa: SLF001 - the slot exists for this function
    except AttributeError:
        key: tuple[Any, ...]
        rank = _RANK[type(node)]
        match node:
            case Num(value) | Truth(value):
                key = (rank, value)
            case Sym(name):
                key = (rank, name)
            case Compare(relation, left, right):
                key = (rank, order_key(left), order_key(right), relation.value)
            case _:
                key = (rank, *(order_key(child) for child in children(node)))
        object.__setattr__(node, "_key", key)
        return key


@lru_cache(maxsize=1 << 16)
def free_symbols(node: Expr | Condition) -> frozenset[str]:
    """The names of all symbols in ``node``."""
    if isinstance(node, Sym):
        return frozenset((node.name,))
    parts = children(node)
    if len(parts) == 1:
        return free_symbols(parts[0])
    return frozenset().union(*(free_symbols(child) for child in parts))


@lru_cache(maxsize=1 << 16)
def is_integer(node: Expr | Condition) -> bool:
    """Whether ``node`` is an integer for all integer symbols (False where that is not obvious)."""
    match node:
        case Num(value):
            return isinstance(value, int)
        case Sym() | FloorDiv() | Floor() | Ceil() | Trunc():
            return True
        case TrueDiv():
            return False
        case Where(_, then, otherwise):
            return is_integer(then) and is_integer(otherwise)
        case Pow(base, exponent):
            return is_integer(base) and is_integer(exponent)
        case _:
            return all(is_integer(child) for child in children(node))


@lru_cache(maxsize=1 << 16)
def is_total(node: Expr | Condition) -> bool:
    """Whether ``node`` is defined for all values: no division by anything that could be zero."""
    match node:
        case FloorDiv(left, right) | Mod(left, right) | TrueDiv(left, right):
            return isinstance(right, Num) and right.value != 0 and is_total(left)
        case Pow(base, exponent):
            return (
                isinstance(exponent, Num) and isinstance(exponent.value, int) and exponent.value >= 0 and is_total(base)
            )
        case _:
            return all(is_total(child) for child in children(node))


@lru_cache(maxsize=1 << 14)
def size(node: Expr | Condition) -> int:
    """How many nodes the tree has."""
    return 1 + sum(size(child) for child in children(node))


def symbols_of(conditions: Iterable[Condition]) -> list[str]:
    """The names of all symbols of ``conditions``, sorted."""
    return sorted(frozenset().union(*(free_symbols(condition) for condition in conditions)))
