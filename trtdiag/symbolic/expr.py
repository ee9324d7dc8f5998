"""Integer expressions over symbols: the one form in which trtdiag reasons about sizes.

torch keeps sizes as sympy expressions with functions of its own, saved programs keep guards as Python text, old
error logs keep them as sympy text.  All of them become this small tree, which evaluates over numpy arrays, has
exact bounds, translates to SMT, and prints as Python.

Semantics are Python's: ``FloorDiv`` and ``Mod`` round towards minus infinity.  ``Num`` is exact (``Fraction``):
a float literal keeps its binary value.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TypeAlias, Union


@dataclass(frozen=True, slots=True)
class Num:
    """A literal number; integral ones hold an ``int``."""

    value: int | Fraction


@dataclass(frozen=True, slots=True)
class Sym:
    """A symbol of the graph (``s77``, ``u0``) or, before sites are resolved, the text of a source."""

    name: str


@dataclass(frozen=True, slots=True)
class Add:
    """The sum of two or more terms."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Mul:
    """The product of two or more factors."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """``left // right``, rounded towards minus infinity."""

    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Mod:
    """``left % right`` with the sign of ``right``."""

    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class TrueDiv:
    """``left / right``, exact; inside integer expressions only under ``Floor`` or ``Ceil``, or compared."""

    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Floor:
    """The greatest integer not above ``arg``."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class Ceil:
    """The least integer not below ``arg``."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class Trunc:
    """``arg`` without its fraction (rounded towards zero)."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class Pow:
    """``base ** exponent`` with an exponent of zero or more."""

    base: Expr
    exponent: Expr


@dataclass(frozen=True, slots=True)
class Min:
    """The least of two or more."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Max:
    """The greatest of two or more."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Where:
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


@dataclass(frozen=True, slots=True)
class Compare:
    """``left <relation> right``."""

    relation: Relation
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class And:
    """All of ``args`` hold."""

    args: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of ``args`` holds."""

    args: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """``arg`` does not hold."""

    arg: Condition


@dataclass(frozen=True, slots=True)
class Truth:
    """A condition that is always true or always false."""

    value: bool


Expr: TypeAlias = Union[Num, Sym, Add, Mul, FloorDiv, Mod, TrueDiv, Floor, Ceil, Trunc, Pow, Min, Max, Where]
Condition: TypeAlias = Union[Compare, And, Or, Not, Truth]
