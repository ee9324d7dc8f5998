"""The functions that guards call, by name: torch's, sympy's and Python's, each built from our nodes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial, reduce

from trtdiag.symbolic import build, build_functions
from trtdiag.symbolic.conditions import TRUE, all_of, any_of, compare, negate
from trtdiag.symbolic.expr import Condition, Expr, Num, Relation
from trtdiag.symbolic.float_factors import HALF, rounds
from trtdiag.symbolic.text import to_text
from trtdiag.symbolic.tree import is_condition, is_integer, size


class ExpressionError(ValueError):
    """A text or object that is no expression we can read.

    Attributes:
        text: What was to be read.
        why: A readable clause.
    """

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"cannot read {text!r}: {why}")
        self.text = text
        self.why = why

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.text, self.why))


class FunctionError(Exception):
    """A known function called in a way that has no meaning; the reader turns it into an ``ExpressionError``."""


Node = Expr | Condition
MOST_EXPONENT = 64  # sizes are integers of 64 bits; a higher power of one is no size
MOST_NUMBER_EXPONENT = 1024
MOST_HALVES = 7
"""Of the exponent of a root: ``n ** 3.5``."""
MOST_RUNS_OF_BITS = 4
MOST_COMPARED_NODES = 500  # each comparison of two conditions writes both of them twice


def round_half_even(arg: Expr) -> Expr:
    """Python's ``round(arg)``."""
    if is_integer(arg):
        return arg
    shifted = build.add(arg, Fraction(1, 2))
    up = build.floor(shifted)
    tie = compare(Relation.EQ, build_functions.ceil(shifted) if rounds(arg) else shifted, up)
    odd = compare(Relation.EQ, build.mod(up, 2), 1)
    return build_functions.where(all_of((tie, odd)), build.sub(up, 1), up)


def power(base: Expr, exponent: Expr) -> Expr:
    """``base ** exponent`` for the exponents that sizes have."""
    if isinstance(exponent, Num):
        if exponent.value == HALF:
            return build_functions.power(base, exponent)
        twice = 2 * exponent.value
        if isinstance(exponent.value, Fraction) and twice.denominator == 1 and -1 <= twice <= MOST_HALVES:
            # A float of its own, as near to it as the product: no whole number but that of a square is so near.
            return build.mul(power(base, build.number(exponent.value - HALF)), root(base))
        if not isinstance(exponent.value, int):
            told = to_text(exponent).replace(" ", "")
            raise FunctionError(f"the power {told} gives a number that is not rational")
        most = MOST_NUMBER_EXPONENT if isinstance(base, Num) else MOST_EXPONENT
        if abs(exponent.value) > most:
            raise FunctionError(f"the exponent {exponent.value} is larger than {most}")
    return build_functions.power(base, exponent)


def root(arg: Expr) -> Expr:
    """The square root of ``arg``."""
    return power(arg, build.number(HALF))


def shift_left(base: Expr, count: Expr) -> Expr:
    """``base << count``."""
    return build.mul(base, power(build.number(2), count))


def shift_right(base: Expr, count: Expr) -> Expr:
    """``base >> count``."""
    return build.floordiv(base, power(build.number(2), count))


def bits_of(left: Expr, right: Expr) -> Expr:
    """``left & right``, where one of them is a number: ``x & ~7`` is ``x - x % 8``.

    Raises:
        FunctionError: Neither is, or its bits are in too many places.
    """
    arg, mask = (left, right) if isinstance(right, Num) else (right, left)
    if not isinstance(mask, Num) or not isinstance(mask.value, int) or not is_integer(arg):
        raise FunctionError("it works on the bits of two sizes")
    if mask.value < 0:
        return build.sub(arg, bits_of(arg, build.number(~mask.value)))
    ends = ends_of_bits(mask.value)
    if len(ends) > 2 * MOST_RUNS_OF_BITS:
        raise FunctionError(f"the number {mask.value} has bits in more than {MOST_RUNS_OF_BITS} places")
    rests = [build.mod(arg, end) for end in ends]
    return build.add(*(build.neg(rest) if place % 2 == 0 else rest for place, rest in enumerate(rests)))


def ends_of_bits(mask: int) -> list[int]:
    """Numbers such that ``x & mask`` is ``-(x % first) + x % second - x % third + ...``, for a mask of 0 or more."""
    return [1 << place for place in range(mask.bit_length() + 1) if (mask ^ (mask << 1)) >> place & 1]


def bits_of_any(left: Expr, right: Expr) -> Expr:
    """``left | right``; raises as ``bits_of`` does."""
    return build.sub(build.add(left, right), bits_of(left, right))


def bits_of_one(left: Expr, right: Expr) -> Expr:
    """``left ^ right``; raises as ``bits_of`` does."""
    return build.sub(bits_of_any(left, right), bits_of(left, right))


def agree(left: Condition, right: Condition) -> Condition:
    """``left == right``: both conditions hold, or neither does.

    Raises:
        FunctionError: They are too large for that.
    """
    if size(left) + size(right) > MOST_COMPARED_NODES:
        raise FunctionError(f"it compares conditions of more than {MOST_COMPARED_NODES} operations with each other")
    return any_of((all_of((left, right)), all_of((negate(left), negate(right)))))


def either(condition: Condition, then: Condition, otherwise: Condition) -> Condition:
    """``then`` where ``condition`` holds, ``otherwise`` elsewhere; raises as ``agree`` does."""
    if size(condition) + size(then) + size(otherwise) > MOST_COMPARED_NODES:
        raise FunctionError(f"it chooses between conditions of more than {MOST_COMPARED_NODES} operations")
    return any_of((all_of((condition, then)), all_of((negate(condition), otherwise))))


# Name -> (how many arguments, their kinds, constructor).  "e": expression, "c": condition; the last kind repeats
# where the count is None.
_Signature = tuple[str, bool, Callable[..., Node]]
FUNCTIONS: dict[str, _Signature] = {}


def _define(kinds: str, call: Callable[..., Node], *names: str, repeats: bool = False) -> None:
    for name in names:
        FUNCTIONS[name] = (kinds, repeats, call)


_define("ee", build.floordiv, "FloorDiv", "CleanDiv")
_define("ee", build.mod, "Mod", "PythonMod")
_define("ee", build.truediv, "IntTrueDiv", "FloatTrueDiv", "TrueDiv")
_define("ee", lambda left, right: build_functions.ceil(build.truediv(left, right)), "CeilDiv")
_define("eee", lambda base, divisor, modulus: build.mod(build.floordiv(base, divisor), modulus), "ModularIndexing")
_define("ee", shift_left, "LShift")
_define("ee", shift_right, "RShift")
_define("ee", bits_of, "BitwiseFn_bitwise_and")
_define("ee", bits_of_any, "BitwiseFn_bitwise_or")
_define("ee", bits_of_one, "BitwiseFn_bitwise_xor")
_define("ee", power, "Pow", "PowByNatural", "FloatPow", "pow")
_define("e", root, "sqrt", "sym_sqrt", "_sym_sqrt", "OpaqueUnaryFn_sqrt")
_define("e", build.floor, "floor", "Floor", "FloorToInt")
_define("e", build_functions.ceil, "ceil", "ceiling", "Ceil", "CeilToInt")
_define("e", build_functions.trunc, "trunc", "Trunc", "TruncToInt", "TruncToFloat", "int", "sym_int")
_define("e", round_half_even, "round", "RoundToInt")
_define("e", lambda arg: build_functions.maximum(arg, build.neg(arg)), "abs", "Abs")
_define("e", lambda arg: arg, "ToFloat", "Identity", "float", "sym_float")
_define("e", build_functions.minimum, "min", "Min", "sym_min", repeats=True)
_define("e", build_functions.maximum, "max", "Max", "sym_max", repeats=True)
_define("cee", build_functions.where, "Where", "sym_ite")
_define("e", build.add, "Add", repeats=True)
_define("e", build.mul, "Mul", repeats=True)
_define("c", lambda *args: all_of(args), "And", repeats=True)
_define("c", lambda *args: any_of(args), "Or", repeats=True)
_define("c", negate, "Not", "sym_not")
_define("ccc", either, "ITE")
_define("cc", lambda left, right: agree(left, negate(right)), "Xor")

# The names of relations in sympy, short and as classes.
RELATIONS = {
    name: relation
    for relation, names in {
        Relation.EQ: ("Eq", "Equality"),
        Relation.NE: ("Ne", "Unequality"),
        Relation.LT: ("Lt", "StrictLessThan"),
        Relation.LE: ("Le", "LessThan"),
        Relation.GT: ("Gt", "StrictGreaterThan"),
        Relation.GE: ("Ge", "GreaterThan"),
    }.items()
    for name in names
}
# The relations that conditions can be in (torch 2.15: ``(L['x'].size()[0] > 3) != (L['x'].size()[1] > 5)``).
OF_CONDITIONS: dict[Relation, Callable[[Condition, Condition], Condition]] = {
    Relation.EQ: agree,
    Relation.NE: lambda left, right: agree(left, negate(right)),
}
for _name, _each in RELATIONS.items():
    _define("ee", partial(compare, _each), _name)


def call_function(name: str, args: list[Node]) -> Node:
    """The node of ``name(*args)``.

    Raises:
        FunctionError: There is no such function, or the arguments do not fit it.
    """
    if name not in FUNCTIONS:
        raise FunctionError(f"the function {name} is not known")
    kinds, repeats, call = FUNCTIONS[name]
    if (len(args) < 1) if repeats else (len(args) != len(kinds)):
        wanted = "at least one" if repeats else str(len(kinds))
        raise FunctionError(f"{name} takes {wanted} argument{'' if len(kinds) == 1 else 's'}, not {len(args)}")
    for kind, arg in zip(kinds * len(args) if repeats else kinds, args, strict=False):
        if is_condition(arg) != (kind == "c"):
            wanted = "a condition" if kind == "c" else "a number"
            raise FunctionError(
                f"{name} takes {wanted} where it was given {'a number' if kind == 'c' else 'a condition'}"
            )
    return call(*args)


def select(branches: list[tuple[Expr, Condition]]) -> Expr:
    """Sympy's ``Piecewise``: the first branch whose condition holds.

    Raises:
        FunctionError: There may be no such branch.
    """
    if not branches or branches[-1][1] != TRUE:
        raise FunctionError("Piecewise has no last branch for all other values")
    *others, (last, _) = branches
    return reduce(lambda rest, branch: build_functions.where(branch[1], branch[0], rest), reversed(others), last)


def as_number(text: object, result: Node) -> Expr:
    """``result``, which was read from ``text``, where it is a number.

    Raises:
        ExpressionError: It is a condition.
    """
    if is_condition(result):
        raise ExpressionError(str(text), "it is a condition, not a number")
    return result  # type: ignore[return-value]


def as_condition(text: object, result: Node) -> Condition:
    """``result``, which was read from ``text``, where it is a condition; raises as ``as_number`` does."""
    if not is_condition(result):
        raise ExpressionError(str(text), "it is a number, not a condition")
    return result  # type: ignore[return-value]


def compare_infinite(relation: Relation, sign: int) -> bool:
    """Whether any number stands in ``relation`` to plus (``sign`` 1) or minus infinity on the right."""
    if relation in (Relation.EQ, Relation.NE):
        return relation is Relation.NE
    return (relation in (Relation.LT, Relation.LE)) == (sign > 0)
