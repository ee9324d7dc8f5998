"""Sizes computed by calls: on numbers and SymInts they give what the expression is, without a guard."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings, strategies as st
from torch import Tensor
from torch.export import Dim

from tests.harness.rows import each
from tests.random_cases import cases
from trtdiag.runtime.size_calls import call_now, computed
from trtdiag.symbolic import ExpressionError, evaluate, is_condition, parse_condition, parse_expr

TEXTS = (
    "s0",
    "7",
    "2*s0 + 1",
    "s0 - s1",
    "s0*s1 - 3",
    "(s0 - 1)//8 + 1",
    "-((-s0)//2)",
    "s0 % 5",
    "(2*s0 + s1) % 7",
    "max(s0, s1, 4)",
    "min(s0 // 2, s1)",
    "s0**2 + s1",
    "floor(s0/3)",
    "ceil(s0/3)",
    "ceil(s0*s1/4)",
    "trunc((s0 - s1)/3)",
    "floor(s0/2 + 1/2)",
    "floor(5*s0/4 + s1/6)",
    "trunc(64 / max(s0, s1)*s0)",
    "ceil(s1 / (s0/3 + 7))",
    "trunc((s0/3)**0.5 * s1)",
    "s0 if s0 < s1 else 2*s1",
    "s0 // 2 if s0 % 2 == 0 and s1 > 3 else s1",
)
CONDITIONS = ("s0 == s1", "s0 % 2 == 0", "s0 < 2*s1", "s0 > 3 and s1 > 3", "s0 == 2 or s1 != 5", "not (s0 <= s1)")
POINTS = [(a, b) for a in (0, 1, 2, 5, 8, 31, 49) for b in (1, 2, 7, 30)]


@pytest.mark.parametrize("text", TEXTS)
def test_numbers_give_the_expression(text: str) -> None:
    expr = parse_expr(text)
    for a, b in POINTS:
        values = {"s0": a, "s1": b}
        assert computed(expr, values, call_now) == evaluate(expr, values)


@pytest.mark.parametrize("text", CONDITIONS)
def test_numbers_give_the_condition(text: str) -> None:
    condition = parse_condition(text)
    for a, b in POINTS:
        values = {"s0": a, "s1": b}
        assert computed(condition, values, call_now) is evaluate(condition, values)


@each("text", [*TEXTS, *CONDITIONS])
def test_recorded_calls_give_the_same_later(text: str) -> None:
    """Every operand opaque, as nodes of a graph are: only calls may touch it."""

    class Opaque:
        __slots__ = ("run",)

        def __init__(self, run: Callable[[dict[str, int]], Any]) -> None:
            self.run = run

        def __bool__(self) -> bool:
            raise AssertionError("a value was asked for its truth")

    def call(function: Callable[..., Any], *operands: Any) -> Opaque:
        def run(values: dict[str, int]) -> Any:
            return function(*(o.run(values) if isinstance(o, Opaque) else o for o in operands))

        return Opaque(run)

    node = parse_condition(text) if text in CONDITIONS else parse_expr(text)
    symbols = {name: Opaque(lambda values, name=name: values[name]) for name in ("s0", "s1")}
    made = computed(node, symbols, call)
    for a, b in POINTS:
        values = {"s0": a, "s1": b}
        assert (made.run(values) if isinstance(made, Opaque) else made) == evaluate(node, values)


@pytest.mark.slow  # quick: test_recorded_calls_give_the_same_later
def test_sym_ints_give_the_expression_without_a_guard() -> None:
    """Traced once over the whole range, the sizes are right at its ends."""
    exprs = {text: parse_expr(text) for text in TEXTS if "if" not in text and text != "7"}

    class Sizes(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Any:
            sizes = {"s0": x.shape[0], "s1": y.shape[0]}
            return {text: computed(expr, sizes, call_now) for text, expr in exprs.items()}

    exported = torch.export.export(
        Sizes(),
        (torch.zeros(5), torch.zeros(7)),
        dynamic_shapes=({0: Dim("a", min=2, max=31)}, {0: Dim("b", min=2, max=30)}),
    )
    module = exported.module()
    for a in (2, 3, 8, 31):
        for b in (2, 7, 30):
            wanted = {text: evaluate(expr, {"s0": a, "s1": b}) for text, expr in exprs.items()}
            assert module(torch.zeros(a), torch.zeros(b)) == wanted


def test_what_is_no_integer_is_a_float() -> None:
    for text, wanted in (("s0/4", 1.25), ("s0/2 + 1/4", 2.75), ("s0/5", 1)):
        assert computed(parse_expr(text), {"s0": 5}, call_now) == wanted


_LEAVES = st.sampled_from(["s0", "s1", "1", "2", "3", "5", "8"])


def _deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(lambda p: f"({p[0]} + {p[1]})"),
        pair.map(lambda p: f"({p[0]} - {p[1]})"),
        pair.map(lambda p: f"({p[0]} * {p[1]})"),
        st.tuples(inner, st.sampled_from("2357")).map(lambda p: f"({p[0]} // {p[1]})"),
        st.tuples(inner, st.sampled_from("2357")).map(lambda p: f"({p[0]} % {p[1]})"),
        st.tuples(inner, st.sampled_from("2357")).map(lambda p: f"floor({p[0]} / {p[1]})"),
        st.tuples(inner, st.sampled_from("2357")).map(lambda p: f"ceil({p[0]} / {p[1]} + 1/3)"),
        st.tuples(inner, st.sampled_from("2357")).map(lambda p: f"trunc({p[0]} / {p[1]} - 3/2)"),
        pair.map(lambda p: f"max({p[0]}, {p[1]} / 2)"),
        pair.map(lambda p: f"min({p[0]}, {p[1]})"),
    )


@settings(max_examples=cases(300), deadline=None)
@given(st.recursive(_LEAVES, _deeper, max_leaves=8), st.integers(0, 40), st.integers(0, 40))
def test_any_expression(text: str, a: int, b: int) -> None:
    try:
        expr = parse_expr(text)
    except ExpressionError:
        assume(False)
        raise
    values = {"s0": a, "s1": b}
    wanted = evaluate(expr, values)
    got = computed(expr, values, call_now)
    assert not is_condition(expr)
    # A quotient is handed over as a float: of numbers this small it is the nearest one.
    assert got == (float(wanted) if isinstance(wanted, Fraction) else wanted)
