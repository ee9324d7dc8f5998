"""Products of matrices and vectors."""

from __future__ import annotations

import pytest
import torch

from tests.convert.family_samples import Row, check_row, converted, missing
from tests.harness.rows import thinned
from tests.random_cases import all_is_run

ALL = (torch.float32, torch.float16, torch.int64)
INTEGERS = ("integer-matrix",)

ROWS = {
    "aten.linear.default": Row(("nn.functional.linear",), INTEGERS, ALL),
    "aten.matmul.default": Row(("matmul", "__rmatmul__"), INTEGERS, ALL),
    "aten.mm.default": Row(("mm",), INTEGERS, ALL),
    "aten.bmm.default": Row(("bmm",), INTEGERS, ALL),
    "aten.mv.default": Row(("mv",), INTEGERS, ALL),
    "aten.dot.default": Row(("dot",), INTEGERS, ALL),
    "aten.vdot.default": Row(("vdot",), INTEGERS, ALL),
    "aten.addmm.default": Row(("addmm",), INTEGERS, ALL),
    "aten.baddbmm.default": Row(("baddbmm",), INTEGERS, ALL),
    # PyTorch rounds the sum to float16 after each matrix of the batch.
    "aten.addbmm.default": Row(("addbmm",), INTEGERS, ALL, near={torch.float16: 1e-2}),
    "aten.addmv.default": Row(("addmv",), INTEGERS, ALL),
    "aten.addr.default": Row(("addr",), (), ALL),
    "aten.bilinear.default": Row(("nn.functional.bilinear",), INTEGERS, ALL),
}


def test_every_converter_has_samples() -> None:
    assert not missing({"matrix"}, ROWS)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_samples(name: str) -> None:
    static, refused = check_row(name, ROWS[name], 2, "11.4", dynamic=False)
    assert static > 0
    assert refused == 0  # by elements, small products of integers are converted
    assert check_row(name, ROWS[name], 1, "8.6", dynamic=True, dtypes=1)[0] > 0
    if all_is_run():
        assert check_row(name, ROWS[name], 2, "11.4", dynamic=True, dtypes=1)[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("target", ["8.6", "10.16", "11.4"])
@pytest.mark.parametrize("name", sorted(ROWS))
def test_all_samples(name: str, target: str) -> None:
    for dynamic in (False, True):
        check_row(name, ROWS[name], 100, target, dynamic=dynamic)


# Every product is quick in test_samples.
@thinned(
    ("left", "right"),
    [
        ((5,), (5,)),
        ((5,), (5, 7)),
        ((3, 5), (5,)),
        ((5,), (2, 3, 5, 7)),
        ((2, 3, 4, 5), (5,)),
        ((2, 1, 4, 5), (3, 5, 7)),
        ((4, 5), (2, 3, 5, 1)),
        ((1, 1), (1, 1)),
        ((2, 2, 2, 2, 2, 3), (3, 2)),
    ],
    every=20,
)
def test_matmul_of_all_ranks(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = torch.randn(left), torch.randn(right)
    converted("aten.matmul.default", a, b)
    converted("aten.matmul.default", a, b, dynamic=True, shared=True)
    converted("aten.matmul.default", (a * 9).long(), (b * 9).long())


def test_sizes_that_a_guard_ties_are_proven_to_be_the_same() -> None:
    # Each size is a symbol of its own; torch.mm's check is what makes the inner ones equal.
    assert converted("aten.mm.default", torch.randn(3, 5), torch.randn(5, 7), dynamic=True) == 4


def test_beta_zero_ignores_what_is_added() -> None:
    nothing = torch.full((3, 7), float("nan"))
    converted("aten.addmm.default", nothing, torch.randn(3, 5), torch.randn(5, 7), kwargs={"beta": 0, "alpha": 2.5})
    converted("aten.addmm.default", torch.randn(7), torch.randn(3, 5), torch.randn(5, 7), kwargs={"beta": -0.5})


@pytest.mark.slow  # quick: large tensors of the program, in test_too_large.py
def test_a_large_product_of_integers_is_refused_and_one_just_inside_is_not() -> None:
    wide = torch.ones(1, 1 << 12, dtype=torch.int64)
    converted("aten.mm.default", wide, torch.ones(1 << 12, 1 << 12, dtype=torch.int64))
    deep = torch.ones(1 << 12, (1 << 12) + 1, dtype=torch.int64)
    converted("aten.mm.default", wide, deep, refused="integer-matrix")


def test_a_linear_layer_with_weights_of_the_program_at_the_ends_of_a_range() -> None:
    x, weight, bias = torch.randn(2, 3, 5), torch.randn(7, 5), torch.randn(7)
    assert converted("aten.linear.default", x, weight, bias, dynamic=True, constants=True) == 4
    assert converted("aten.linear.default", x.half(), weight.half(), bias.half(), constants=True, target="8.6") == 1
    assert converted("aten.linear.default", x[0, 0], weight, None, constants=True) == 1
