"""Lets torch's reader of graphs read in fewer steps, and what torch writes of ``n & 6`` and ``n + 2`` at all.

It parses the text of a size wherever it stands, about a millisecond each, half of the time that a transformer takes to
read: sympy looks up all its names for every text.  Here each is parsed once, and sums and products are computed without
that parser, which brings all of sympy.

It makes the value of a node by ``torch.empty_strided`` under the program's mode for fake tensors, which looks the call
up, runs it on the meta device, and compares what it keeps of equal calls with the result: a third of the time that a
program takes to read.  What that comes to, a fake tensor around one of the meta device, is made here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import sympy
import torch
from torch._export.serde import serialize
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.utils._sympy import functions as torch_functions

from trtdiag.symbolic.functions import ends_of_bits
from trtdiag.wording import words

_CORE = words(
    "Symbol Integer Rational Add Mul Pow Eq Ne Lt Le Gt Ge Equality Unequality StrictLessThan LessThan"
    " StrictGreaterThan GreaterThan And Or Not"
)
"""What ``sympy.srepr`` writes of sizes and conditions, by names of sympy's core."""


def parse_srepr(text: str, functions: Mapping[str, Any]) -> Any:
    """The expression of a text that ``sympy.srepr`` wrote, or the text itself where more is needed to read it.

    Args:
        text: One that passed ``check_symbol_expression``.
        functions: By name, what else the text may call.
    """
    try:
        return _made(ast.parse(text, mode="eval").body, functions)
    except (LookupError, SyntaxError):
        return text


def _made(node: ast.expr, functions: Mapping[str, Any]) -> Any:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            function = functions[name] if name in functions else _core(name)
            named = {str(each.arg): _made(each.value, functions) for each in node.keywords}
            return function(*(_made(each, functions) for each in node.args), **named)
        case ast.Constant(value=bool() | int() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_made(operand, functions)
    raise LookupError(type(node).__name__)


def _core(name: str) -> Any:
    if name not in _CORE:
        raise LookupError(name)
    return getattr(sympy, name)


_PARSE = "_parse_sym_expr"


def _bits_of(left: Any, right: Any) -> Any:
    arg, mask = (left, right) if right.is_Integer else (right, left)
    if not mask.is_Integer:
        return torch_functions.BitwiseFn_bitwise_and(left, right)
    if mask < 0:
        return arg - _bits_of(arg, -1 - mask)
    rests = (torch_functions.PythonMod(arg, end) for end in map(sympy.Integer, ends_of_bits(int(mask))))
    return sympy.Add(*((-1) ** (place + 1) * rest for place, rest in enumerate(rests)))


_WRITTEN = {
    # The program that was exported has torch's own; torch reads sympy's, which brings all of sympy.
    "Max": torch_functions.Max,
    "Min": torch_functions.Min,
    "BitwiseFn_bitwise_and": _bits_of,
    "BitwiseFn_bitwise_or": lambda left, right: left + right - _bits_of(left, right),
    "BitwiseFn_bitwise_xor": lambda left, right: left + right - 2 * _bits_of(left, right),
}
"""Functions of sizes that torch writes by name, and does not find when it reads (2.11 to 2.15).

Those of bits are read as what has a range.
"""


@contextmanager
def equal_sizes_parsed_once() -> Iterator[None]:
    """Within it, a text of a size with the same example gives the same expression of one reader again.

    What torch notes of a symbol while it parses (its range, its example) it notes the first time.  Whoever calls has
    torch's turn.  A torch whose reader is made otherwise is let alone.
    """
    kind: Any = serialize.GraphModuleDeserializer
    parse: Callable[..., Any] | None = vars(kind).get(_PARSE)
    if parse is None:
        yield
        return
    known: WeakKeyDictionary[Any, dict[tuple[object, ...], Any]] = WeakKeyDictionary()

    def parsed(reader: Any, text: Any, hint: Any = None) -> Any:
        if type(text) is not str:  # a part of an expression that is parsed
            return parse(reader, text, hint)
        if reader not in known:
            known[reader] = {}
            reader.sympy_functions = {**_WRITTEN, **reader.sympy_functions}
        expressions = known[reader]
        key = (text, type(hint), hint)
        if key not in expressions:
            expressions[key] = made = parse(reader, parse_srepr(text, reader.sympy_functions), hint)
            root, example = _root_of(made, hint)
            if root is not None:
                parse(reader, root, example)
        return expressions[key]

    setattr(kind, _PARSE, parsed)
    try:
        yield
    finally:
        setattr(kind, _PARSE, parse)


def _root_of(size: Any, hint: Any) -> tuple[Any, int]:
    """The symbol of a size like ``2*s0 + 1``, with its example: torch notes those of sizes that are symbols alone."""
    if type(hint) is not int or size.is_Symbol or len(size.free_symbols) != 1:
        return None, 0
    (symbol,) = size.free_symbols
    scale = size.coeff(symbol)
    offset = size - scale * symbol
    whole = scale.is_Integer and offset.is_Integer and scale != 0 and (hint - offset) % scale == 0
    return (symbol, int((hint - offset) // scale)) if whole else (None, 0)


_MAKE = "deserialize_tensor_meta"


@contextmanager
def values_made_at_once() -> Iterator[None]:
    """Within it, torch's reader makes values of nodes without running an op.

    Whoever calls has torch's turn.  A torch whose reader is made otherwise is let alone.
    """
    kind: Any = serialize.GraphModuleDeserializer
    before = vars(kind).get(_MAKE)
    dtypes = getattr(serialize, "_SERIALIZE_TO_TORCH_DTYPE", None)
    device_of = getattr(serialize, "deserialize_device", None)
    if before is None or dtypes is None or device_of is None:
        yield
        return

    def made(reader: Any, meta: Any) -> Any:
        mode = reader.fake_tensor_mode
        sizes = tuple(map(reader.deserialize_sym_int, meta.sizes))
        strides = tuple(map(reader.deserialize_sym_int, meta.strides))
        with in_kernel_invocation_manager(mode):
            inner = torch.empty_strided(sizes, strides, device="meta", dtype=dtypes[meta.dtype])
        return FakeTensor(mode, inner, device_of(meta.device)).requires_grad_(meta.requires_grad)

    setattr(kind, _MAKE, made)
    try:
        yield
    finally:
        setattr(kind, _MAKE, before)
