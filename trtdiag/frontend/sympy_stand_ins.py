"""What stands for names of the rest of sympy until that is imported (``deferred_sympy.py``).

Nothing is of a class before its module is there; what is called, or asked for more, brings the rest.  A few calls that
the core makes for integers are answered here, as sympy answers them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from trtdiag.wording import words

NAMES = {
    "sympy.calculus.accumulationbounds": ("AccumBounds", "AccumulationBounds"),
    "sympy.functions.elementary.complexes": ("Abs", "im", "re", "sign"),
    "sympy.functions.elementary.exponential": ("exp_polar",),
    "sympy.functions.elementary.piecewise": ("Piecewise",),
    "sympy.matrices.expressions": ("MatrixExpr",),
    "sympy.matrices.expressions.matexpr": ("MatrixExpr",),
    "sympy.matrices.matrixbase": ("MatrixBase",),
    "sympy.ntheory.factor_": ("multiplicity", "perfect_power"),
    "sympy.ntheory.primetest": ("isprime",),
    "sympy.polys.polyroots": ("roots",),
    "sympy.polys.polytools": ("real_roots",),
    "sympy.sets.fancysets": ("Naturals0",),
    "sympy.sets.sets": ("FiniteSet",),
    "sympy.simplify.powsimp": ("powdenest",),
    "sympy.simplify.radsimp": ("fraction",),
    "sympy.tensor.array": ("Array", "NDimArray"),
    "sympy.tensor.tensor": ("TensAdd", "TensExpr"),
}
"""By module: what the core imports wherever it may look whether something is of it, or may call it."""
SETS = words("Complexes EmptySequence EmptySet Integers Naturals Naturals0 Rationals Reals UniversalSet")
"""What ``sympy.S`` has once the rest is there."""

_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
_SURE = 318_665_857_834_031_151_167_461
"""Below it these witnesses find every composite number.  Source: Sorenson and Webster, Math. Comp. 86 (2017)."""
_EXACT = 1 << 53
"""Up to these an integer is a float."""
Complete = Callable[[], None]


class _Kind(type):
    """Of a class that stands for another, or for a function; its name is that of the other, and its module."""

    complete: Complete

    def __call__(cls, *args: Any, **named: Any) -> Any:
        brief = _BRIEF.get(cls.__name__)
        made = NotImplemented if brief is None or named else brief(cls.complete, *args)
        return cls._real()(*args, **named) if made is NotImplemented else made

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(cls._real(), name)

    def _real(cls) -> Any:
        cls.complete()
        return getattr(import_module(cls.__module__), cls.__name__)


def stand_in(module: str, name: str, complete: Complete) -> type:
    """What stands for a name of a module.

    Args:
        module: The module.
        name: Its class or function.
        complete: Brings the rest of sympy.
    """
    return _Kind(name, (), {"__module__": module, "complete": staticmethod(complete)})


class _Late:
    """What a function of the rest gives, for as long as nobody looks at it: a look brings the rest.

    Args:
        complete: Brings the rest.
        name: The function, as ``sympy`` has it.
        arguments: What it is called with.
    """

    def __init__(self, complete: Complete, name: str, *arguments: Any) -> None:
        self._complete = complete
        self._call = (name, arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._sympy_(), name)

    def _sympy_(self) -> Any:
        """What it is; ``sympify`` asks for it, which all arithmetic of sympy does."""
        self._complete()
        name, arguments = self._call
        return getattr(import_module("sympy"), name)(*arguments)


class _LateNumber(_Late):
    """A number, whose class is looked at, too; that of a set tells it from other sets."""

    @property  # type: ignore[misc]  # isinstance asks for it where the object's own class is none that it looks for
    def __class__(self) -> type:
        return type(self._sympy_())


def _looked_at(name: str) -> Callable[..., Any]:
    return lambda late, *others: getattr(late._sympy_(), name)(*others)


for _name in words(
    "abs add bool complex contains eq float floordiv ge gt hash int iter le len lt mod mul ne neg pos pow radd reduce"
    " repr rfloordiv rmod rmul round rpow rsub rtruediv str sub truediv"
):
    setattr(_Late, f"__{_name}__", _looked_at(f"__{_name}__"))


def _arities(complete: Complete, *numbers: Any) -> Any:
    """The set of how many arguments a function takes, which each call of one has, and at which nobody looks."""
    return _Late(complete, "FiniteSet", *numbers)


def _absolute(complete: Complete, value: Any) -> Any:
    """The core asks of a factor that may be negative whether this is the object one: with symbols in it, never."""
    if getattr(value, "is_Symbol", False) and value.is_positive:
        return value
    return _LateNumber(complete, "Abs", value) if getattr(value, "free_symbols", None) else NotImplemented


def _real_part(_complete: Complete, value: Any) -> Any:
    return value if getattr(value, "is_extended_real", False) else NotImplemented


def _imaginary_part(_complete: Complete, value: Any) -> Any:
    return import_module("sympy").S.Zero if getattr(value, "is_extended_real", False) else NotImplemented


def _fraction(_complete: Complete, value: Any) -> Any:
    """What stands above and below the line of a product of numbers, symbols, functions and their integer powers."""
    core = import_module("sympy")
    above, below = [], []
    for factor in core.Mul.make_args(value):
        if factor.is_Pow and not (factor.is_commutative and factor.exp.is_Integer):
            return NotImplemented
        if factor.is_Pow and factor.exp.p < 0:
            below.append(factor.base**-factor.exp)
        elif factor.is_Rational and not factor.is_Integer:
            above.append(core.Integer(factor.p))
            below.append(core.Integer(factor.q))
        else:
            above.append(factor)
    return core.Mul(*above), core.Mul(*below)


def _is_prime(_complete: Complete, number: Any) -> Any:
    """By Miller and Rabin, which is no guess below the limit."""
    value = int(number)
    if value in _WITNESSES:
        return True
    if value >= _SURE:
        return NotImplemented
    if value < _WITNESSES[0] or not all(value % each for each in _WITNESSES):
        return False
    twos = ((value - 1) & (1 - value)).bit_length() - 1
    for witness in _WITNESSES:
        power = pow(witness, (value - 1) >> twos, value)
        if power in (1, value - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % value
            if power == value - 1:
                break
        else:
            return False
    return True


def _piecewise(_complete: Complete, *pairs: Any) -> Any:
    """The first value whose condition holds, if those before it are known not to."""
    core = import_module("sympy")
    for value, condition in pairs:
        if condition in (True, core.true):
            return core.sympify(value)
        if condition not in (False, core.false):
            break
    return NotImplemented


_BRIEF: dict[str, Callable[..., Any]] = {
    "Abs": _absolute,
    "FiniteSet": _arities,
    "Piecewise": _piecewise,
    "fraction": _fraction,
    "im": _imaginary_part,
    "isprime": _is_prime,
    "re": _real_part,
}
"""What answers a call in the place of the real one, or gives ``NotImplemented``."""


def know_numbers() -> Complete:
    """Say the sign of a number, and an integer as a float, at once: sympy's evaluation brings all of its functions.

    Returns:
        What undoes it.
    """
    core = import_module("sympy")
    sign, value = "_eval_is_extended_positive_negative", "__complex__"
    evaluate = getattr(core.Expr, sign)

    def signed(number: Any, positive: bool) -> Any:
        if not number.is_number:
            return None
        if not isinstance(number, core.Rational):
            return evaluate(number, positive)
        return number.p > 0 if positive else number.p < 0

    def as_complex(number: Any) -> complex:
        return complex(number.p if abs(number.p) <= _EXACT else core.Expr.__complex__(number))

    def undo() -> None:
        setattr(core.Expr, sign, evaluate)
        delattr(core.Integer, value)

    setattr(core.Expr, sign, signed)
    setattr(core.Integer, value, as_complex)
    return undo


def ask_for_sets(complete: Complete) -> Complete:
    """Bring the rest where one of its sets is asked for, or something is to become one.

    Args:
        complete: Brings it.

    Returns:
        What undoes it.
    """
    registry = type(import_module("sympy").S)
    known = import_module("sympy.core.sympify").__dict__["_sympy_converter"]
    get = registry.__getattr__

    def late(found: Any, name: str) -> Any:
        if name not in SETS:
            return get(found, name)
        complete()
        return getattr(found, name)

    def as_set(value: Any) -> Any:
        complete()
        return known[type(value)](value)

    def undo() -> None:
        registry.__getattr__ = get
        for kind in kinds:
            known.pop(kind)

    kinds = (set, frozenset, range)
    registry.__getattr__ = late
    known.update(dict.fromkeys(kinds, as_set))
    return undo
