"""A symbol that nobody named is said by the dim that it sizes."""

from __future__ import annotations

import pytest

from trtdiag.symbolic import Range, parse_condition, parse_expr, to_text
from trtdiag.symbolic.size_names import Home, SizeNames, named_sizes, said_by
from trtdiag.symbolic.text import in_words

NAMES = SizeNames({"s4": "_x_dim2", "s5": "batch"}, {"s4": Home("x.shape[2]", 4)})
ODD = SizeNames({"s4": "_x_dim2", "s5": "batch"}, {"s4": Home("x.shape[2]", 4, 3)})


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


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ("4*s4 + 3", "x.shape[2]"),
        ("4*s4 + 1", "x.shape[2] - 2"),
        ("4*s4", "x.shape[2] - 3"),
        ("8*s4 + s5", "2*x.shape[2] + batch - 6"),
        ("s4", "(x.shape[2] - 3) // 4"),
        ("2*s4 + 1", "(x.shape[2] - 3) // 2 + 1"),
        ("s5 - 4*s4", "batch - x.shape[2] + 3"),
        ("s5 - s4", "batch - (x.shape[2] - 3) // 4"),
        ("s4*s5", "((x.shape[2] - 3) // 4)*batch"),
        ("s4 % 3", "((x.shape[2] - 3) // 4) % 3"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 64])
def test_what_is_said_of_a_dim_with_an_offset_is_worth_the_same(expr: str, text: str, size: int) -> None:
    said = to_text(parse_expr(expr), ODD)
    assert sorted(said.replace("*", " * ").split()) == sorted(text.replace("*", " * ").split())
    here = said.replace("x.shape[2]", str(4 * size + 3)).replace("batch", "5")
    assert eval(here) == eval(expr, {"s4": size, "s5": 5})


@pytest.mark.parametrize(
    ("condition", "names", "told"),
    [
        ("s4 <= 16", NAMES, "x.shape[2] <= 64"),
        ("s4 <= 16", ODD, "x.shape[2] <= 67"),
        ("s4 != 0", ODD, "x.shape[2] != 3"),
        ("4*s4 + 3 < s5", ODD, "x.shape[2] <= batch - 1"),
        ("4*s4 + 3 == s5", ODD, "x.shape[2] == batch"),
        ("s5 <= 16", ODD, "batch <= 16"),
    ],
)
def test_bounds_of_a_symbol_are_said_of_its_dim(condition: str, names: SizeNames, told: str) -> None:
    def sides(text: str) -> set[str]:  # which side stands first is the order of the symbols
        return {text, " ".join(reversed(text.replace("<", ">").split(" ")))}

    assert to_text(parse_condition(condition), names) in sides(told)


def test_ranges_are_those_of_the_dim() -> None:
    assert said_by("s4", Range(2, 16), NAMES) == ("x.shape[2]", Range(8, 64))
    assert said_by("s4", Range(2, None), ODD) == ("x.shape[2]", Range(11, None))
    assert said_by("s5", Range(2, 16), ODD) == ("batch", Range(2, 16))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("4*s4 + 3", "x.shape[2]"),
        ("view(4*s4 + 3, s5)", "view(x.shape[2], batch)"),
        ("4*s4 + 1", "(x.shape[2] - 2)"),
        ("8 - 4*s4 + 3", "8 - (x.shape[2] - 3) + 3"),
        ("4*s4 + 3*s5", "(x.shape[2] - 3) + 3*batch"),
        ("s4", "((x.shape[2] - 3) // 4)"),
        ("s5 + 3", "batch + 3"),
        ("4*s4 + 3.5", "(x.shape[2] - 3) + 3.5"),
    ],
)
def test_an_offset_in_a_text(text: str, told: str) -> None:
    assert in_words(text, ODD) == told


def test_conditions_and_texts() -> None:
    assert to_text(parse_condition("4*s4 <= 64"), NAMES) in {"x.shape[2] <= 64", "x.shape[2] // 4 <= 16"}
    assert in_words("expand(4*s4, 2*s4) of s5 and s9", NAMES) == "expand(x.shape[2], (x.shape[2] // 2)) of batch and s9"
    assert in_words("4*s4**2", NAMES) == "4*_x_dim2**2"


def test_sizes_are_those_of_the_dim() -> None:
    assert named_sizes({"s4": 16, "s5": 2, "u0": 3}, NAMES) == {"x.shape[2]": 64, "batch": 2, "u0": 3}
    assert named_sizes({"s4": 16}, {"s4": "h"}) == {"h": 16}
    assert named_sizes({"s4": 16}, ODD) == {"x.shape[2]": 67}


def test_dims_are_said_where_nobody_has_a_name() -> None:
    alone = SizeNames({}, {"s4": Home("x.shape[2]", 4)})
    assert to_text(parse_expr("s4 + 3"), alone) == "x.shape[2] // 4 + 3"
