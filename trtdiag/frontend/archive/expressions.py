"""Which texts are arithmetic over sizes and nothing else.

torch gives ``SymExpr.expr_str`` to ``sympy.sympify``, which evaluates it as Python, and writes ``guards_code`` into a
function that it executes.  So both are parsed here first, and only trees of the few known shapes pass.  The third
danger is a number: ``Pow(10, Pow(10, 10))`` is arithmetic and never ends, so the size of results is bounded too.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from abc import ABC, abstractmethod
from functools import lru_cache

from trtdiag.wording import words

# Longest text and deepest nesting that is looked at; the longest seen in 105 exported networks is 1,300 characters.
LIMIT_CHARACTERS = 20_000
LIMIT_DEPTH = 80
# How many bits a constant exponent may have, and how many a constant subexpression may grow to.
LIMIT_EXPONENT_BITS = 7
LIMIT_BITS = 4_096


_SYMPY = words(
    "Symbol Integer Float Rational Add Mul Pow Mod Abs Min Max floor ceiling sqrt Eq Ne Lt Le Gt Ge Equality Unequality"
    " StrictLessThan LessThan StrictGreaterThan GreaterThan And Or Not ITE Piecewise ExprCondPair"
)
# torch.utils._sympy.functions, and what GraphModuleDeserializer.deserialize hands to sympify.
_TORCH = words(
    "FloorDiv ModularIndexing Where PythonMod Mod CleanDiv CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural"
    " FloatPow FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator TruncToFloat TruncToInt RoundToInt"
    " RoundDecimal ToFloat Identity Min Max"
)
# Not known to sympy under these names: it makes an undefined function of them, which computes nothing.
_OPAQUE = re.compile(r"(OpaqueUnaryFn|BitwiseFn)_\w+")
_POWERS = frozenset(["Pow", "PowByNatural", "FloatPow", "LShift"])
_ASSUMPTIONS = words(
    "integer positive negative nonnegative nonpositive nonzero zero real finite rational commutative even odd"
)
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]{1,4})?|nan|[-+]?inf")

_GUARD_CALLS = words(
    "Max Min max min abs int float bool round Mod FloorDiv cast_symbool_to_symint_guardless"
    " IsNonOverlappingAndDenseIndicator"
)
_GUARD_MODULES = {
    "math": words("ceil floor trunc sqrt log log2 exp pow inf nan cos sin tan asinh acosh atanh isqrt"),
    "torch": words(
        "sym_float sym_int sym_not sym_max sym_min sym_ite sym_sqrt sym_sum _sym_sqrt _sym_log2 _sym_cos _sym_sin"
        " _sym_tan _sym_exp _sym_asin _sym_acos _sym_atan _sym_sinh _sym_cosh _sym_tanh"
    ),
}
_TENSOR_METHODS = words("size stride storage_offset item numel dim element_size")

_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.LShift, ast.RShift,
)  # fmt: skip
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class NotArithmeticError(Exception):
    """A text that is refused; its argument says why."""


@lru_cache(maxsize=512)
def check_symbol_expression(text: str) -> None:
    """Passes sympy's ``srepr`` (torch 2.5 and newer) and ``str`` (older) of a size.

    Raises:
        NotArithmeticError: The text is anything else.
    """
    _check(_SymbolExpression(), text)


def check_guard(text: str) -> None:
    """Passes a condition over ``L['x'].size()[1]`` and the like.

    Raises:
        NotArithmeticError: The text is anything else.
    """
    _check(_Guard(), text)


def _check(grammar: _Arithmetic, text: str) -> None:
    try:
        grammar.check(_parse(text))
    except RecursionError as error:
        raise NotArithmeticError("it is nested too deeply") from error


def _parse(text: str) -> ast.expr:
    if len(text) > LIMIT_CHARACTERS:
        raise NotArithmeticError(f"it is {len(text):,} characters long")
    if not text.isascii() or not text.isprintable() or "\\" in text or "#" in text:
        raise NotArithmeticError("it contains characters that no size expression has")
    depth = deepest = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        deepest = max(deepest, depth)
    # Signs and "not" nest without brackets.
    if deepest > LIMIT_DEPTH or re.search(r"([-+~] *|not +){20}", text):
        raise NotArithmeticError("it is nested too deeply")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotArithmeticError("it is not an expression") from error


class _Arithmetic(ABC):
    """The part that both kinds of text share.  Every method returns a bound on the bits of a constant result."""

    @abstractmethod
    def call(self, node: ast.Call) -> int: ...

    @abstractmethod
    def leaf(self, node: ast.expr) -> int: ...

    def check(self, node: ast.expr) -> int:
        bits = self._bits(node)
        if bits > LIMIT_BITS:
            raise NotArithmeticError("it computes a number of thousands of digits")
        return bits

    def _bits(self, node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int() | float() as value):
                return _bits_of(value)
            case ast.Constant(value=value):
                raise NotArithmeticError(f"it contains the {type(value).__name__} {str(value)[:40]!r}")
            case ast.BinOp(op=operator):
                if not isinstance(operator, _OPERATORS):
                    raise NotArithmeticError(f"it uses the operator {type(operator).__name__}")
                left, right = self.check(node.left), self.check(node.right)
                return self.power(left, right) if isinstance(operator, (ast.Pow, ast.LShift)) else left + right
            case ast.UnaryOp(operand=operand):
                return self.check(operand)
            case ast.BoolOp(values=values):
                return max(map(self.check, values))
            case ast.Compare(ops=operators):
                if not all(isinstance(operator, _COMPARISONS) for operator in operators):
                    raise NotArithmeticError("it compares with `in` or `is`")
                return max(map(self.check, (node.left, *node.comparators)))
            case ast.Call():
                return self.call(node)
        return self.leaf(node)

    def power(self, base_bits: int, exponent_bits: int) -> int:
        if exponent_bits > LIMIT_EXPONENT_BITS:
            raise NotArithmeticError(f"it raises to a power of more than {LIMIT_EXPONENT_BITS} bits")
        return base_bits << exponent_bits


class _SymbolExpression(_Arithmetic):
    def call(self, node: ast.Call) -> int:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in _SYMPY and name not in _TORCH and not _OPAQUE.fullmatch(name):
            raise NotArithmeticError(f"it calls {ast.unparse(node.func)[:60]}")
        if name == "Symbol":
            return self._symbol(node)
        if name == "Float":
            return self._float(node)
        if node.keywords:
            raise NotArithmeticError(f"it calls {name} with keywords")
        sizes = [self.check(argument) for argument in node.args]
        if name in _POWERS and len(node.args) == 2:
            return self.power(*sizes)
        return sum(sizes)

    def leaf(self, node: ast.expr) -> int:
        if isinstance(node, ast.Name) and not node.id.startswith("__"):
            return 1
        if isinstance(node, ast.Tuple):
            return sum(self.check(element) for element in node.elts)
        raise NotArithmeticError(f"it contains {type(node).__name__} syntax")

    def _symbol(self, node: ast.Call) -> int:
        names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        if len(node.args) != 1 or len(names) != 1 or not is_plain_name(names[0]):
            raise NotArithmeticError("it contains a symbol with an odd name")
        for word in node.keywords:
            if word.arg not in _ASSUMPTIONS or not isinstance(getattr(word.value, "value", None), bool):
                raise NotArithmeticError("it contains a symbol with odd assumptions")
        return 1

    def _float(self, node: ast.Call) -> int:
        bits = 1
        for argument in (*node.args, *(word.value for word in node.keywords)):
            value = argument.value if isinstance(argument, ast.Constant) else None
            if isinstance(value, str) and len(value) < 400 and _NUMBER.fullmatch(value):
                bits = max(bits, _bits_of(float(value)))
            # The second number is a precision in bits or digits; torch uses 53.
            elif not isinstance(value, (int, float)) or not abs(value) <= 1 << 12:
                raise NotArithmeticError("it contains a Float that is no number")
        if any(word.arg not in ("precision", "dps") for word in node.keywords):
            raise NotArithmeticError("it contains a Float that is no number")
        return bits


class _Guard(_Arithmetic):
    def call(self, node: ast.Call) -> int:
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise NotArithmeticError("it calls with keywords")
        sizes = [self.check(argument) for argument in node.args] or [1]
        function = node.func
        if isinstance(function, ast.Name) and function.id in _GUARD_CALLS:
            return sum(sizes)
        if isinstance(function, ast.Attribute):
            owner = function.value
            if isinstance(owner, ast.Name) and function.attr in _GUARD_MODULES.get(owner.id, ()):
                return self.power(*sizes) if function.attr == "pow" and len(sizes) == 2 else sum(sizes)
            if function.attr in _TENSOR_METHODS:
                self._input(owner)
                return sum(sizes)
        raise NotArithmeticError(f"it calls {ast.unparse(function)[:60]}")

    def leaf(self, node: ast.expr) -> int:
        if isinstance(node, ast.IfExp):
            return max(map(self.check, (node.test, node.body, node.orelse)))
        if isinstance(node, ast.Subscript):
            if isinstance(node.value, ast.Call):
                self.check(node.value)
                self.check(node.slice)
            else:
                self._input(node)
            return 1
        if isinstance(node, ast.Attribute):
            owner = node.value
            if not (isinstance(owner, ast.Name) and node.attr in _GUARD_MODULES.get(owner.id, ())):
                self._input(node)
            return 1
        raise NotArithmeticError(f"it contains {ast.unparse(node)[:60]}")

    def _input(self, node: ast.expr) -> None:
        """``L['batch']['image']``, ``L['args'][0].mask``: an input, or a part of one."""
        if isinstance(node, ast.Attribute):
            if node.attr.startswith("_"):
                raise NotArithmeticError(f"it reads the attribute {node.attr[:40]}")
            return self._input(node.value)
        if isinstance(node, ast.Subscript):
            key = node.slice
            if not isinstance(key, ast.Constant) or not isinstance(key.value, (str, int)):
                raise NotArithmeticError("it indexes an input with something that is no name and no number")
            # torch puts the text of a guard between double quotes.
            if isinstance(key.value, str) and not is_plain_text(key.value):
                raise NotArithmeticError("it names an input with quotes or control characters")
            if isinstance(node.value, ast.Name) and node.value.id == "L":
                return None
            return self._input(node.value)
        raise NotArithmeticError(f"it contains {ast.unparse(node)[:60]}")


def _bits_of(value: float) -> int:
    """A bound on the bits before and behind the point; infinity and nan stay what they are in any computation."""
    if isinstance(value, int):
        return max(1, value.bit_length())
    if value == 0 or not math.isfinite(value):
        return 1
    return abs(math.frexp(value)[1]) + 1


def is_plain_name(text: object) -> bool:
    """Whether a text can stand in Python source as a name and as nothing else."""
    return isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text)


def is_plain_text(text: str) -> bool:
    """Whether a text can stand between quotes in Python source without ending them."""
    return text.isprintable() and not any(letter in text for letter in "\"'\\")
