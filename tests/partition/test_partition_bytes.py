"""Bytes of sizes that have no value somewhere in their range, with and without the ranges of symbols."""

from __future__ import annotations

import pytest
import torch

from trtdiag.graph.values import TensorValue
from trtdiag.partition.facts import SymbolSizes
from trtdiag.partition.traffic import ByteCounts
from trtdiag.symbolic import Num, parse_expr

TENSOR = TensorValue(torch.float32, (parse_expr("h // (h // 4)"), Num(3)), 4)


def test_without_sizes_a_tensor_counts_as_one_element_where_one_has_no_value() -> None:
    counts = ByteCounts({})
    assert counts.weight(TENSOR) == 4
    assert counts.of(TENSOR).opt is None
    assert counts.weight(TensorValue(torch.float32, (parse_expr("h + 1"), Num(3)), 4)) == 24


@pytest.mark.parametrize(("usual", "expected"), [(1, None), (3, None), (4, 48), (7, 84), (64, 48)])
def test_bytes_at_usual_sizes_are_unknown_where_the_size_has_no_value(usual: int, expected: int | None) -> None:
    counts = ByteCounts({"h": SymbolSizes(1, usual, 64)})
    assert counts.of(TENSOR).opt == expected
    assert counts.weight(TENSOR) == (4 if expected is None else expected)
