"""Rows multiplied by the matrix of their group, and values counted by bins."""

from __future__ import annotations

import pytest
import torch

from tests.convert.family_samples import converted, missing
from tests.convert.op_check import OLD_THEN_NEW
from trtdiag.convert.ops import grouped

pytest.importorskip("transformers.integrations.moe", reason="brings the op for the CPU")
FALLBACK, KERNEL, HISTC = "transformers.grouped_mm_fallback.default", "aten._grouped_mm.default", "aten.histc.default"


def test_every_converter_has_samples() -> None:
    assert not missing({"grouped"}, {FALLBACK, KERNEL, HISTC})


@pytest.mark.parametrize("target", OLD_THEN_NEW)
@pytest.mark.parametrize("counts", [[1], [0, 5, 0], [64, 65, 63, 128], [7, 0, 200, 1], [0, 0, 3, 0, 0]])
def test_rows_in_groups(counts: list[int], target: str) -> None:
    """Groups without rows, of one block and of several, with a last block that is full and one that is not."""
    torch.manual_seed(3)
    ends = torch.tensor(counts).cumsum(0).to(torch.int32)
    rows, weight = torch.randn(sum(counts), 5), torch.randn(len(counts), 5, 3)
    assert converted(FALLBACK, rows, weight, ends, target=target) == 1
    assert converted(FALLBACK, rows.half(), weight.half(), ends.long(), target=target) == 1


def test_rows_behind_the_last_group_are_zero() -> None:
    rows, weight = torch.randn(9, 5), torch.randn(2, 5, 3)
    assert converted(FALLBACK, rows, weight, torch.tensor([2, 6])) == 1


def test_as_the_kernel_of_bfloat16() -> None:
    rows, weight = torch.randn(48, 16).bfloat16(), torch.randn(3, 16, 32).bfloat16()
    ends = torch.tensor([16, 16, 48], dtype=torch.int32)
    assert converted(KERNEL, rows, weight, ends) == 1
    converted(KERNEL, rows, rows.T.contiguous(), torch.tensor([16, 32], dtype=torch.int32), refused="groups-of-columns")


def test_a_number_of_rows_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, weight = torch.randn(70, 5), torch.randn(3, 5, 3)
    ends = torch.tensor([0, 30, 70], dtype=torch.int32)
    # The harness makes the dims of the matrices dynamic as well, and there the number of groups.
    converted(FALLBACK, rows, weight, ends, dynamic=True, refused="dynamic-attribute")
    options = {"dynamic": True, "constants": True}
    assert converted(FALLBACK, rows, weight, ends, target="8.6", **options) > 1
    monkeypatch.setattr(grouped, "MOST_WEIGHTS", 1000)
    converted(FALLBACK, rows, weight, ends, refused=None)
    converted(FALLBACK, torch.randn(9000, 5), weight, ends, refused="grouped-weights")


@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_counts_by_bins(target: str) -> None:
    x = torch.tensor([[0.0, 15.0, 7.5, -0.1], [15.1, 14.999, float("nan"), float("inf")]])
    for bins, low, high in ((16, 0, 15), (1, 0, 15), (7, -1.5, 2.5), (100, 0, 1)):
        assert converted(HISTC, x, bins, low, high, target=target) == 1
        assert converted(HISTC, torch.randn(13), bins, low, high, dynamic=True, target=target) == 4
    converted(HISTC, x, refused="data-dependent-ends")
