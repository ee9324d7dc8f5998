"""Views by strides."""

from __future__ import annotations

import pytest
import torch

from tests.convert.family_samples import converted, missing

NAME = "aten.as_strided.default"


def test_every_converter_has_samples() -> None:
    assert not missing({"strided"}, {NAME, "aten.as_strided_copy.default"})


# Quick: the oldest.
@pytest.mark.parametrize("target", ["8.6", pytest.param("11.4", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("sizes", "strides", "offset"),
    [
        ([4, 6], [6, 1], 0),
        ([6, 4], [1, 6], None),
        ([3, 3], [6, 2], 5),
        ([2, 2, 3], [12, 0, 1], 1),
        ([1], [1], 23),
        ([], [], 7),
        ([5, 4], [1, 1], 0),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_views_inside_the_tensor(
    sizes: list[int], strides: list[int], offset: int | None, target: str, dtype: torch.dtype
) -> None:
    x = (torch.randn(4, 6) * 3).to(dtype)
    assert converted(NAME, x, sizes, strides, offset, target=target) == 1
    assert converted("aten.as_strided_copy.default", x, sizes, strides, offset, target=target) == 1


def test_the_last_element_is_the_edge() -> None:
    x = torch.randn(4, 6)
    assert converted(NAME, x, [2, 3], [12, 5], 1) == 1  # 1 + 12 + 2 * 5 is 23
    whole = torch.randn(30)
    converted(NAME, whole[:24].clone().view(4, 6), [2, 3], [12, 5], 0)
    converted(NAME, whole[:24], [2, 3], [12, 5], 2, refused="beyond-the-tensor")


def test_memory_in_another_order_is_refused() -> None:
    converted(NAME, torch.randn(4, 6).T, [2, 2], [1, 1], 0, refused="memory-layout")
    converted(NAME, torch.randn(24)[2:], [2, 2], [1, 1], 0, refused="memory-layout")
