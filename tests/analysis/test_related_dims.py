"""Dims that the program makes of others: what a Dim can say, and what the root may then be."""

from __future__ import annotations

import pytest
import torch

from tests.harness import facts
from trtdiag.analysis.related_dims import line_of, related_dims
from trtdiag.frontend.program import InputDim, InputTensor, Program
from trtdiag.symbolic import parse_expr
from trtdiag.symbolic.expr import Expr, Sym
from trtdiag.symbolic.ranges import Range


def expr(text: str) -> Expr:
    return parse_expr(text, Sym)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("s0", (1, 0)),
        ("4*s0", (4, 0)),
        ("s0 + 3", (1, 3)),
        ("2*s0 - 1", (2, -1)),
        ("32 - s0", None),
        ("-2*s0", None),
        ("s0 + s1", None),
        ("s0*s1", None),
        ("s0 // 2", None),
        ("2*s0 + s1 + 1", None),
        ("s0*s0", None),
    ],
)
def test_what_a_derived_dim_can_say(text: str, line: tuple[int, int] | None) -> None:
    assert line_of(expr(text)) == line


def program(*dims: tuple[str, str | None, Range | None]) -> Program:
    """One input per dim: its size, the name of its own Dim, that one's range."""
    inputs = tuple(
        InputTensor(
            f"x{i}",
            f"x{i}",
            torch.float32,
            (InputDim(f"x{i}", 0, expr(size), declared=name, declared_name=name, declared_range=ranges),),
        )
        for i, (size, name, ranges) in enumerate(dims)
    )
    return facts.program(inputs=inputs, names={"s0": "h"})


def test_the_root_gets_what_all_its_dims_allow() -> None:
    fine, coarse, root = ("4*s0", "a", Range(5, 512)), ("2*s0 + 1", "b", Range(2, 101)), ("s0", "h", Range(2, 512))
    first, second = related_dims(program(fine, coarse, root))
    assert (first.text, second.text) == ("4*h", "2*h + 1")
    assert first.root_range == second.root_range == Range(2, 50)  # ceil(5 / 4), (101 - 1) / 2
    assert first.smallest == 2


def test_open_ends_stay_open() -> None:
    (only,) = related_dims(program(("4*s0", "a", Range(0, None)), ("s0", "h", None)))
    assert only.root_range == Range(0, None)


@pytest.mark.parametrize(
    "dims",
    [
        (("s0", "a", Range(2, 64)), ("s0", "h", Range(2, 64))),  # equal, not related: GRD302's
        (("4*s0", None, None), ("s0", "h", Range(2, 64))),  # declared as derived
        (("12", "a", Range(2, 64)), ("s0", "h", Range(2, 64))),  # pinned: SYM202's
        (("4*s0", "a", Range(2, 64)),),  # the root is no dim of an input
    ],
)
def test_what_is_no_relation(dims: tuple[tuple[str, str | None, Range | None], ...]) -> None:
    assert list(related_dims(program(*dims))) == []
