"""Sizes as tensors: what the network computes is what the expression says, for random expressions and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings, strategies as st

from tests.random_cases import cases
from tests.symbolic.random_guards import Guard, expressions, guards, value_of
from trtdiag.convert.refusal import Refused
from trtdiag.convert.shape_tensor_writer import ShapeTensorWriter
from trtdiag.network import DType, NetworkBuilder, run
from trtdiag.network.layer import Layer
from trtdiag.network.layers.gather import Gather
from trtdiag.network.network import Network
from trtdiag.symbolic import (
    Condition,
    Expr,
    Num,
    Range,
    Sym,
    add,
    ceil,
    evaluate,
    floor,
    floordiv,
    is_condition,
    mod,
    mul,
    parse_condition,
    parse_expr,
    sub,
    truediv,
    trunc,
)
from trtdiag.symbolic.expr import Pow
from trtdiag.symbolic.tree import children

A, B = Sym("a"), Sym("b")
RANGES = {"a": Range(0, 40), "b": Range(0, 40)}
# Inputs from which both symbols follow: alone, scaled and shifted, and out of a sum.  A dim from which no symbol can be
# read has one of its own, which is defined.
SHAPES: tuple[tuple[tuple[Expr, ...], ...], ...] = (
    ((A, B),),
    ((add(mul(2, A), 1),), (add(mul(3, B), 5), A)),
    ((Sym("d"), B),),
    ((B,), (Sym("e"),)),
)
DEFINITIONS = {"d": add(A, B), "e": add(mul(2, A), mul(3, B), 1)}
INDICES = (DType.INT64, DType.INT32)


def _written(
    shapes: Sequence[Sequence[Expr]],
    wanted: Sequence[Expr],
    index: DType,
    definitions: Mapping[str, Expr],
    ranges: Mapping[str, Range],
) -> Network:
    builder = NetworkBuilder(ranges, (), definitions)
    sizes = ShapeTensorWriter(builder, index)
    for number, shape in enumerate(shapes):
        sizes.note(builder.input(f"x{number}", DType.BOOL, shape))
    for number, expr in enumerate(wanted):
        builder.output(f"y{number}", sizes.element(expr))
    return builder.build()


def _values(network: Network, shapes: Sequence[Sequence[Expr]], point: Mapping[str, int]) -> list[int]:
    inputs = [torch.zeros([int(evaluate(size, point)) for size in shape], dtype=torch.bool) for shape in shapes]
    return [int(value) for value in run(network, inputs)]


def _fits(node: Expr | Condition, point: Mapping[str, int], index: DType) -> bool:
    """Whether every step of the expression is defined, and held by the dtype of sizes."""
    try:
        held = is_condition(node) or index.holds(int(evaluate(node, point)))  # type: ignore[arg-type]
    except ZeroDivisionError:
        return False
    return held and all(_fits(part, point, index) for part in children(node))


def _is_refused(node: Expr | Condition, index: DType) -> bool:
    """Whether a number in it is beyond the dtype, or a power beyond the eighth."""
    match node:
        case Num(value) if not index.holds(int(value)):
            return True
        case Pow(_, Num(times)) if times > 8:
            return True
    return any(_is_refused(part, index) for part in children(node))


@settings(max_examples=cases(60), deadline=None)
@given(
    text=expressions(leaves=5),
    shapes=st.sampled_from(SHAPES),
    index=st.sampled_from(INDICES),
    points=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=3, max_size=3),
)
def test_random_expressions(
    text: str, shapes: tuple[tuple[Expr, ...], ...], index: DType, points: list[tuple[int, int]]
) -> None:
    expr = parse_expr(text)
    if _is_refused(expr, index):
        with pytest.raises(Refused, match=r"number-range|size-expression"):
            _written(shapes, [expr], index, DEFINITIONS, RANGES)
        return
    network = _written(shapes, [expr], index, DEFINITIONS, RANGES)
    for a, b in points:
        point = {"a": a, "b": b}
        point |= {name: int(evaluate(size, point)) for name, size in DEFINITIONS.items()}
        true = value_of(text, point)
        if true is not None and _fits(expr, point, index):
            assert _values(network, shapes, point) == [true]


@settings(max_examples=cases(60), deadline=None)
@given(guard=guards(leaves=3), index=st.sampled_from(INDICES), a=st.integers(0, 40), b=st.integers(0, 40))
def test_random_conditions(guard: Guard, index: DType, a: int, b: int) -> None:
    condition = parse_condition(guard.text)
    builder = NetworkBuilder(RANGES)
    sizes = ShapeTensorWriter(builder, index)
    sizes.note(builder.input("x", DType.BOOL, (A, B)))
    if _is_refused(condition, index):
        with pytest.raises(Refused, match=r"number-range|size-expression"):
            sizes.element(condition)
        return
    builder.output("y", sizes.element(condition))
    network = builder.build()
    if _fits(condition, {"a": a, "b": b}, index):
        (answer,) = run(network, [torch.zeros(a, b, dtype=torch.bool)])
        assert bool(answer) is guard.truth({"a": a, "b": b})


HALF_AND_MORE = add(mul(Fraction(3, 2), A), Fraction(1, 4))


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize(
    "expr",
    [
        floor(HALF_AND_MORE),
        ceil(HALF_AND_MORE),
        trunc(HALF_AND_MORE),
        trunc(sub(Fraction(1, 4), HALF_AND_MORE)),
        ceil(truediv(sub(A, 7), 4)),
        ceil(truediv(A, add(B, 1))),
        floor(truediv(A, add(B, 1))),
        trunc(truediv(sub(A, 9), add(B, 1))),
        floordiv(sub(A, B), add(B, 2)),
        mod(sub(A, B), add(B, 2)),
    ],
)
def test_rounding_of_quotients(expr: Expr, index: DType) -> None:
    network = _written([(A, B)], [expr], index, {}, RANGES)
    for a in (0, 1, 2, 7, 13, 40):
        for b in (0, 1, 5, 11):
            assert _values(network, [(A, B)], {"a": a, "b": b}) == [evaluate(expr, {"a": a, "b": b})]


@pytest.mark.parametrize("index", INDICES)
def test_a_dim_that_is_an_expression_is_read_as_it_is(index: DType) -> None:
    """Nothing gives ``h``; what is made of the dim ``(h - 1)//8 + 1`` can be computed."""
    dim = add(floordiv(sub(Sym("h"), 1), 8), 1)
    ranges = {"h": Range(1, 100), "d0": Range(1, 13)}
    wanted = [dim, mul(3, dim), sub(floordiv(sub(Sym("h"), 1), 8), 1), floordiv(add(dim, 5), 2)]
    network = _written([(Sym("d0"),)], wanted, index, {"d0": dim}, ranges)
    for d in (1, 2, 7, 13):
        assert [int(v) for v in run(network, [torch.zeros(d, dtype=torch.bool)])] == [d, 3 * d, d - 2, (d + 5) // 2]


def test_what_nothing_gives_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        _written([(Sym("d"),)], [A], DType.INT64, DEFINITIONS, RANGES)
    assert caught.value.limit.code == "size-not-at-hand"


def test_a_value_of_its_own_is_asked_for_where_no_dim_gives_it() -> None:
    builder = NetworkBuilder({**RANGES, "n": Range(-5, 5)})
    entered = builder.input("n", DType.INT64, (), [Sym("n")])
    sizes = ShapeTensorWriter(builder, DType.INT64, {Sym("n"): entered}.get)
    builder.output("y", sizes.element(add(mul(2, Sym("n")), 1)))
    (answer,) = run(builder.build(), [torch.tensor(-3)])
    assert answer.tolist() == [-5]


def test_equal_sizes_are_written_once() -> None:
    builder = NetworkBuilder(RANGES)
    sizes = ShapeTensorWriter(builder, DType.INT64)
    sizes.note(builder.input("x", DType.BOOL, (A, B)))
    first = sizes.vector([A, mul(A, B), B])
    assert sizes.vector([A, mul(A, B), B]) is first
    builder.output("y", first)
    builder.output("z", sizes.vector([B, A]))
    kinds: list[type[Layer]] = [type(placed.layer) for placed in builder.build().layers]
    assert kinds.count(Gather) == 2


def test_an_empty_vector_is_a_vector() -> None:
    builder = NetworkBuilder(RANGES)
    assert ShapeTensorWriter(builder, DType.INT32).vector([]).tensor.static_shape == (0,)
