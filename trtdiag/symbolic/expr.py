"""Integer expressions over symbols: the one form in which trtdiag reasons about sizes.

torch keeps sizes as sympy expressions with functions of its own, saved programs keep guards as Python text, old
error logs keep them as sympy text.  All of them become this small tree, which evaluates over numpy arrays, has
exact bounds, translates to SMT, and prints as Python.

Semantics are Python's: ``FloorDiv`` and ``Mod`` round towards minus infinity.  ``Num`` is exact (``Fraction``):
a float literal keeps its binary value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias, Union, get_args


class Node:
    """The base of all nodes: equal trees are equal, and a node computes its hash and its place in an order once."""

    __slots__ = ("_hash", "_key")

    _hash: int
    _key: tuple[object, ...]

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            fields = tuple(getattr(self, name) for name in type(self).__slots__)
            # Frozen dataclasses forbid assignment; what is remembered is no field and never changes the meaning.
            object.__setattr__(self, "_hash", hash((type(self).__name__, fields)))
            return self._hash


@dataclass(frozen=True, slots=True)
class Num(Node):
    """A literal number; integral ones hold an ``int``."""

    value: int | Fraction


@dataclass(frozen=True, slots=True)
class Sym(Node):
    """A symbol of the graph (``s77``, ``u0``) or, before sites are resolved, the text of a source."""

    name: str


@dataclass(frozen=True, slots=True)
class Add(Node):
    """The sum of two or more terms."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Mul(Node):
    """The product of two or more factors."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class FloorDiv(Node):
    """``left // right``, rounded towards minus infinity."""

    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Mod(Node):
    """``left % right`` with the sign of ``right``."""

    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class TrueDiv(Node):
    """``left / right``, exact; inside integer expressions only under ``Floor`` or ``Ceil``, or compared."""

    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Floor(Node):
    """The greatest integer not above ``arg``."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class Ceil(Node):
    """The least integer not below ``arg``."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class Trunc(Node):
    """``arg`` without its fraction (rounded towards zero)."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class Pow(Node):
    """``base ** exponent`` with an exponent that is a whole number of zero or more, or a half: a float."""

    base: Expr
    exponent: Expr


@dataclass(frozen=True, slots=True)
class Min(Node):
    """The least of two or more."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Max(Node):
    """The greatest of two or more."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Where(Node):
    """``then`` where ``condition`` holds, ``otherwise`` elsewhere."""

    condition: Condition
    then: Expr
    otherwise: Expr


class Relation(Enum):
    """A comparison; the value is its Python text."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def holds(self) -> Callable[[Any, Any], Any]:
        """``left <relation> right`` as a function of two numbers, arrays or whatever compares."""
        return _COMPARED[self]


_COMPARED: dict[Relation, Callable[[Any, Any], Any]] = {each: getattr(operator, each.name.lower()) for each in Relation}


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """``left <relation> right``."""

    relation: Relation
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class And(Node):
    """All of ``args`` hold."""

    args: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or(Node):
    """At least one of ``args`` holds."""

    args: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Truth(Node):
    """A condition that is always true or always false."""

    value: bool


Expr: TypeAlias = Union[Num, Sym, Add, Mul, FloorDiv, Mod, TrueDiv, Floor, Ceil, Trunc, Pow, Min, Max, Where]
Condition: TypeAlias = Union[Compare, And, Or, Truth]

for _kind in (*get_args(Expr), *get_args(Condition)):
    _kind.__hash__ = Node.__hash__  # a dataclass would compute its own each time
