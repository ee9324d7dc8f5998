"""Sizes are computed from their texts as sympy's parser computes them."""

from __future__ import annotations

import pytest
import sympy
import torch.utils._sympy.functions as torch_functions

from tests.harness.rows import each
from trtdiag.frontend.archive.deserializer_patches import _WRITTEN, parse_srepr

S, T = sympy.Symbol("s0", positive=True, integer=True), sympy.Symbol("u1", integer=True)
FUNCTIONS = {name: getattr(torch_functions, name) for name in ("FloorDiv", "Mod", "PythonMod", "CeilToInt")}


@each(
    "size",
    [
        S,
        T,
        sympy.Integer(-7),
        S + T - 3,
        2 * S * T**2,
        (S + 1) ** 3,
        S * sympy.Rational(1, 3),
        sympy.Eq(S, T),
        sympy.Ne(S, 2),
        S > T,
        T <= 4,
        sympy.And(S > 3, sympy.Not(sympy.Eq(T, 1))),
        torch_functions.FloorDiv(S + 1, 2),
        torch_functions.Mod(T, 8) * 4,
    ],
)
def test_what_sympy_writes_is_computed_as_by_its_parser(size: sympy.Basic) -> None:
    text = sympy.srepr(size)
    computed = parse_srepr(text, FUNCTIONS)
    assert not isinstance(computed, str)
    assert computed == sympy.sympify(text, locals=FUNCTIONS)
    assert sympy.srepr(computed) == text


@each("name", ["Max", "Min"])
def test_the_greater_of_sizes_is_what_export_wrote(name: str) -> None:
    size = getattr(torch_functions, name)(1, T)
    computed = parse_srepr(sympy.srepr(size), _WRITTEN)
    assert computed == size
    assert type(computed) is type(size)


@each("name", ["and", "or", "xor"])
def test_bits_are_computed_as_by_python(name: str) -> None:
    function, right = _WRITTEN[f"BitwiseFn_bitwise_{name}"], getattr(int, f"__{name}__")
    for mask in (-8, -7, -1, 0, 1, 6, 13):
        expression = function(T, sympy.Integer(mask))
        assert [expression.subs(T, size) for size in range(-3, 20)] == [right(size, mask) for size in range(-3, 20)]


# What sympy's own names of other modules are needed for, plain arithmetic of older torch, and what is no expression.
@pytest.mark.parametrize(
    "text", ["Max(Integer(1), Symbol('u0', integer=True))", "s0*2 + 1", "s0", "Float('0.5', precision=53)", "((", ""]
)
def test_other_texts_are_left_to_that(text: str) -> None:
    assert parse_srepr(text, FUNCTIONS) == text
