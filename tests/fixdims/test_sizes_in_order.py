"""Two sizes that an op asks to be in order, and that the example has equal, are one Dim."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtdiag
from trtdiag.fixdims.fix import Fix


class RowsOfMask(nn.Module):
    """As transformers' masks: read at each sequence's number, so that the mask may have more rows."""

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return ids * mask[torch.arange(ids.shape[0])]


def rows_of_mask(rows: int) -> tuple[Any, ...]:
    dims = {
        "ids": {0: Dim("b", min=1, max=64), 1: Dim("t", min=2, max=8)},
        "mask": {0: Dim("b2", min=1, max=64), 1: Dim("t2", min=2, max=8)},
    }
    return RowsOfMask(), (torch.randn(2, 5), torch.randn(rows, 5)), {}, dims


@pytest.fixture(scope="module")
def equal() -> Fix:
    return trtdiag.fix_dims(rows_of_mask(2))


def test_sizes_that_the_example_has_equal_are_one_dim(equal: Fix) -> None:
    """The box with most combinations left 2 of 64 values: ``b: 1..2, b2: 2..64``."""
    assert equal.proven
    assert '"ids": {0: b, 1: t},\n    "mask": {0: b, 1: t},' in equal.code
    assert [change.kept for change in equal.changes] == [(64, 64), (7, 7)] * 2
    assert {reason.text for change in equal.changes for reason in change.why} == {"b <= b2", "t == t2"}
    program = equal.program
    for rows in (1, 3, 64):
        ids, mask = torch.randn(rows, 5), torch.randn(rows, 5)
        torch.testing.assert_close(program.module()(ids, mask), ids * mask)


@pytest.mark.slow  # quick: programs of their own, in test_several_programs.py
def test_further_programs_keep_to_the_order(equal: Fix) -> None:
    """They took b = 64 together with b2 = 1: what the op asks was known of a later export only."""
    several = equal.several
    assert several is not None
    assert len(several.programs) > 1
    assert several.kept is not None
    assert several.kept[0] <= 7 * 64 * 65 // 2  # so many pairs are in order, for each of seven widths


@pytest.mark.slow  # quick: sizes that the example has equal are one dim, by fix-dims
def test_analyze_declares_one_dim_too(equal: Fix) -> None:
    (finding,) = [f for f in trtdiag.analyze(rows_of_mask(2)).findings if f.rule == "GRD308"]
    assert finding.fix is not None
    assert finding.fix.code + "\n" == equal.code
    assert finding.fix.title == "declare ids.shape[0] and mask.shape[0] with one Dim (all: keeps 64 of 64 values)"


def test_of_dims_without_an_end_nothing_is_said_to_be_kept() -> None:
    module, example, _, _ = rows_of_mask(2)
    open_dims = {name: {0: Dim.AUTO} for name in ("ids", "mask")}
    found = trtdiag.analyze((module, example, {}, open_dims)).findings
    (fix,) = [each.fix for each in found if each.rule == "GRD308"]
    assert fix is not None
    assert fix.title == "declare ids.shape[0] and mask.shape[0] with one Dim"


@pytest.mark.slow  # the quick run has ordered sizes in test_fix_dims_relations.py
def test_sizes_that_the_example_has_unequal_stay_two() -> None:
    fix = trtdiag.fix_dims(rows_of_mask(7))
    assert fix.proven
    assert "b2 = Dim" in fix.code
