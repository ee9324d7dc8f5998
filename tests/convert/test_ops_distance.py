"""Distances between rows."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from tests.convert.family_samples import converted, missing
from tests.convert.function_program import converted as one_segment
from tests.convert.op_check import OLD_THEN_NEW
from trtdiag.network import run

NAMES = {
    "aten._cdist_forward.default",
    "aten._euclidean_dist.default",
    "aten._pdist_forward.default",
    "aten.cosine_similarity.default",
    "aten.pdist.default",
}


def test_every_converter_has_samples() -> None:
    assert not missing({"distance"}, NAMES)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, 0.5, float("inf")])
@pytest.mark.parametrize("mode", [None, *(pytest.param(mode, marks=pytest.mark.slow) for mode in (1, 2))])
def test_norms(p: float, mode: int | None) -> None:
    left, right = torch.randn(2, 5, 4), torch.randn(2, 7, 4)
    assert converted("aten._cdist_forward.default", left, right, p, mode, target="8.6") == 1
    assert converted("aten._cdist_forward.default", left, right, p, mode, dynamic=True, shared=True) == 4


@pytest.mark.parametrize("rows", [1, 25, 26])
def test_more_rows_than_pytorch_takes_differences_of(rows: int) -> None:
    left = torch.randn(rows, 4)
    # The root of a difference of squares: of equal rows it is about the root of float32's precision.
    limits = {torch.float32: 2e-3}
    assert converted("aten._cdist_forward.default", left, left.clone(), 2.0, None, near=limits) == 1
    assert converted("aten._euclidean_dist.default", left, torch.randn(7, 4), near=limits) == 1


def test_batches_that_broadcast() -> None:
    left, right = torch.randn(2, 1, 5, 4), torch.randn(3, 7, 4)
    assert converted("aten._cdist_forward.default", left, right, 2.0, None) == 1


def test_rows_without_elements_are_refused() -> None:
    converted("aten._cdist_forward.default", torch.ones(3, 0), torch.ones(2, 0), 2.0, None, refused="empty")


def test_cosine_similarity() -> None:
    name, left = "aten.cosine_similarity.default", torch.randn(2, 5, 4)
    right = torch.cat([torch.zeros(1, 5, 4), torch.randn(1, 5, 4)])  # a length below eps counts as eps
    for axis in (0, 1, -1):
        assert converted(name, left, right, axis, dynamic=True, shared=True) == 4
    assert converted(name, left.half(), right[1:].half(), target="8.6") == 1
    assert converted(name, left, torch.randn(4), 2, 0.5) == 1
    for axis in (0, 1, -3):  # the other is repeated along it
        assert converted(name, torch.randn(4), left, axis, target="8.6") == 1


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
@pytest.mark.parametrize("rows", [2, 3, 17])
def test_pairs_of_rows(p: float, rows: int) -> None:
    assert converted("aten._pdist_forward.default", torch.randn(rows, 5), p, target="8.6") == 1
    assert converted("aten.pdist.default", torch.randn(rows, 5), p) == 1


@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_pairs_of_a_dynamic_number_of_rows(target: str) -> None:
    """Each pair has a distance of its own, so that one index beside its place would show."""
    shapes = ({0: Dim("rows", min=3, max=2047)},)
    module, segment = one_segment(lambda _, x: torch.pdist(x), (torch.randn(17, 3),), shapes, target)
    for rows in (3, 17, 1022, 2047):
        x = torch.randn(rows, 3)
        (got,) = run(segment.network, [x])
        torch.testing.assert_close(got, module(x), rtol=1e-5, atol=1e-6)


def test_more_dynamic_rows_than_an_index_holds_are_refused() -> None:
    converted(
        "aten._pdist_forward.default", torch.randn(5, 3), 2.0, dynamic=True, target="8.6", refused="dynamic-pairs"
    )
    assert converted("aten._pdist_forward.default", torch.randn(5, 3), 2.0, dynamic=True) == 4
