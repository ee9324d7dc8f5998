"""A symbol that nobody named is said by the dim that it sizes."""

from __future__ import annotations

import pytest

from trtdiag.symbolic import parse_condition, parse_expr, to_text
from trtdiag.symbolic.size_names import Home, SizeNames, named_sizes
from trtdiag.symbolic.text import in_words

NAMES = SizeNames({"s4": "_x_dim2", "s5": "batch"}, {"s4": Home("x.shape[2]", 4)})


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ("4*s4", "x.shape[2]"),
        ("2*s4", "x.shape[2] // 2"),
        ("s4", "x.shape[2] // 4"),
        ("8*s4", "2*x.shape[2]"),
        ("6*s4", "3*(x.shape[2] // 2)"),
        ("4*s4 + 1", "x.shape[2] + 1"),
        ("3*s4 + s5", "3*(x.shape[2] // 4) + batch"),
        ("s4*s5", "(x.shape[2] // 4)*batch"),
        ("5*s5", "5*batch"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_what_is_said_is_worth_the_same(expr: str, text: str, size: int) -> None:
    said = to_text(parse_expr(expr), NAMES)
    assert sorted(said.replace("*", " * ").split()) == sorted(text.replace("*", " * ").split())
    values = {"s4": size, "s5": 3}
    here = said.replace("x.shape[2]", str(4 * size)).replace("batch", "3")
    assert eval(here) == eval(expr, values)


def test_conditions_and_texts() -> None:
    assert to_text(parse_condition("4*s4 <= 64"), NAMES) in {"x.shape[2] <= 64", "x.shape[2] // 4 <= 16"}
    assert in_words("expand(4*s4, 2*s4) of s5 and s9", NAMES) == "expand(x.shape[2], (x.shape[2] // 2)) of batch and s9"
    assert in_words("4*s4**2", NAMES) == "4*_x_dim2**2"


def test_sizes_are_those_of_the_dim() -> None:
    assert named_sizes({"s4": 16, "s5": 2, "u0": 3}, NAMES) == {"x.shape[2]": 64, "batch": 2, "u0": 3}
    assert named_sizes({"s4": 16}, {"s4": "h"}) == {"h": 16}
