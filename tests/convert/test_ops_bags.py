"""Bags of embeddings."""

from __future__ import annotations

import pytest
import torch

from tests.convert.family_samples import converted, missing
from tests.convert.op_check import OLD_THEN_NEW

NAMES = {
    *("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default"),
    *("aten.embedding_bag.default", "aten.embedding_bag.padding_idx"),
}
SUM, MEAN, MAX = 0, 1, 2


def _bag(mode: int, offsets: list[int], count: int = 7, **options: object) -> int:
    torch.manual_seed(0)
    table, index = torch.randn(11, 5), torch.randint(0, 11, (count,))
    weights, last, padding = options.pop("weights", None), options.pop("last", False), options.pop("padding", -1)
    arguments = (table, index, torch.tensor(offsets), False, mode, False, weights, last, padding)
    return converted("aten._embedding_bag.default", *arguments, read={0}, **options)


def test_every_converter_has_samples() -> None:
    assert not missing({"bags"}, NAMES)


@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
@pytest.mark.parametrize("target", OLD_THEN_NEW)
@pytest.mark.parametrize("offsets", [[0], [0, 3], [0, 0, 2, 2, 7], [0, 1, 2, 3, 4, 5, 6]])
def test_bags_empty_ones_too(mode: int, target: str, offsets: list[int]) -> None:
    assert _bag(mode, offsets, target=target) == 1


@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
def test_the_last_offset_and_padding(mode: int) -> None:
    # The last offset is the number of indices; what torch gives for less differs between modes.
    assert _bag(mode, [0, 3, 5, 7], last=True) == 1
    assert _bag(mode, [0, 7, 7], last=True) == 1
    assert _bag(mode, [0, 3], padding=4) == 1


def test_weights_of_each_sample() -> None:
    assert _bag(SUM, [0, 2, 5], weights=torch.randn(7)) == 1


def test_the_form_for_inference() -> None:
    table, index = torch.randn(11, 5), torch.tensor([3, 1, 4, 1, 5])
    name = "aten._embedding_bag_forward_only.default"
    assert converted(name, table, index, torch.tensor([0, 2]), read={0}) == 1


@pytest.mark.parametrize("padding", [None, 1, -1, -4])
def test_the_form_that_programs_call(padding: int | None) -> None:
    table, index, offsets = torch.randn(5, 3), torch.tensor([3, 1, 4, 1, 0]), torch.tensor([0, 2])
    arguments = (table, index, offsets, False, MEAN, False, None, False)
    assert converted("aten.embedding_bag.padding_idx", *arguments, padding, read={0}, target="8.6") == 1
    if padding is None:
        assert converted("aten.embedding_bag.default", *arguments, read={0}) == 1


def test_infinity_stays_in_its_bag() -> None:
    table = torch.randn(4, 3)
    table[1] = torch.inf
    index, offsets = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 2])
    assert converted("aten._embedding_bag.default", table, index, offsets, read={0}) == 1


def test_what_training_needs_is_refused() -> None:
    table, index, offsets = torch.randn(4, 3), torch.tensor([0, 1]), torch.tensor([0])
    converted("aten._embedding_bag.default", table, index, offsets, read={0, 1}, refused="output-unsupported")
