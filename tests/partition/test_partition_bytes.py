"""Bytes over the ranges of symbols, also of sizes that have no value somewhere in their range."""

from __future__ import annotations

import random

import pytest
import torch

from tests.random_cases import cases
from trtdiag.graph.values import TensorValue
from trtdiag.partition.facts import Bytes
from trtdiag.partition.traffic import ByteCounts
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import BoundsCache, Num, Range, evaluate, mul, parse_expr

TENSOR = TensorValue(torch.float32, (parse_expr("h // (h // 4)"), Num(3)), 4)


def test_without_sizes_a_tensor_counts_as_one_element_where_one_has_no_value() -> None:
    counts = ByteCounts({})
    assert counts.weight(TENSOR) == 4
    assert counts.of(TENSOR).opt is None
    assert counts.weight(TensorValue(torch.float32, (parse_expr("h + 1"), Num(3)), 4)) == 24


@pytest.mark.parametrize(("usual", "expected"), [(1, None), (3, None), (4, 48), (7, 84), (64, 48)])
def test_bytes_at_usual_sizes_are_unknown_where_the_size_has_no_value(usual: int, expected: int | None) -> None:
    counts = ByteCounts({"h": DimProfile(1, usual, 64)})
    assert counts.of(TENSOR).opt == expected
    assert counts.weight(TENSOR) == (4 if expected is None else expected)


SIZES = (
    "1", "3", "0", "h", "w", "2*h", "h*w", "h + 1", "h - 1", "2*h + w", "(h - 1)//2 + 1", "h//4", "(2*h + 1)//3",
    "(h - 64)*w", "h - w", "h % 4 + 1", "(h//2)*(w//2)", "h//w", "Max(h, w)", "4 - h//32",
)  # fmt: skip
"""Of growing sizes all forms, and beside them sizes that do not grow, that may be none, and that have no value."""
BOX = {"h": DimProfile(7, 33, 512), "w": DimProfile(1, 5, None)}


@pytest.mark.parametrize("box", [BOX, {**BOX, "w": DimProfile(2, 2, 64)}, {**BOX, "h": DimProfile(0, 0, 9)}])
def test_bytes_are_the_exact_bounds_of_all_elements(box: dict[str, DimProfile]) -> None:
    bounds = BoundsCache({name: Range(sizes.min, sizes.max) for name, sizes in box.items()})
    usual = {name: sizes.opt for name, sizes in box.items()}
    chosen, counts = random.Random(3), ByteCounts(box)
    for _ in range(cases(300)):
        dims = tuple(parse_expr(chosen.choice(SIZES)) for _ in range(chosen.choice((0, 1, 2, 3))))
        volume = mul(1, *dims)
        found = bounds.of(volume).range
        low = None if found.min is None else max(found.min, 0) * 2
        high = None if found.max is None else found.max * 2
        try:
            opt = int(evaluate(volume, usual)) * 2
        except ZeroDivisionError:
            opt = None
        told = counts.of(TensorValue(torch.float16, dims, 2))
        assert told == Bytes(low, opt, high), dims
