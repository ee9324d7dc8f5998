"""Poolings: windows of a fixed size, and windows that share the input out evenly."""

from __future__ import annotations

import pytest
import torch

from tests.convert.family_samples import Row, check_row, converted, missing
from tests.harness.rows import thinned

_F = "nn.functional."
MAX = (torch.float32, torch.float16, torch.int64)

# PyTorch adds up the elements of a window over three dims in float16, the network does not: 84 of them come to differ
# by 0.01 of the greatest mean; ours is within 0.0005 of it (against float32).
SUMMED_IN_HALF = {torch.float16: 2e-2}

ROWS = {
    "aten.max_pool2d_with_indices.default": Row((_F + "max_pool2d",), (), MAX),
    "aten.max_pool3d_with_indices.default": Row((_F + "max_pool3d",), (), MAX, read=(0,)),
    "aten.avg_pool1d.default": Row((_F + "avg_pool1d",)),
    "aten.avg_pool2d.default": Row((_F + "avg_pool2d",)),
    "aten.avg_pool3d.default": Row((_F + "avg_pool3d",), (), (torch.float32,)),
    "aten.adaptive_avg_pool1d.default": Row((_F + "adaptive_avg_pool1d",)),
    "aten.adaptive_avg_pool2d.default": Row((_F + "adaptive_avg_pool2d",)),
    "aten.adaptive_avg_pool3d.default": Row((_F + "adaptive_avg_pool3d",), near=SUMMED_IN_HALF),
    "aten._adaptive_avg_pool2d.default": Row((_F + "adaptive_avg_pool2d",)),
    "aten._adaptive_avg_pool3d.default": Row((_F + "adaptive_avg_pool3d",), near=SUMMED_IN_HALF),
    "aten.adaptive_max_pool2d.default": Row((_F + "adaptive_max_pool2d",)),
    "aten.adaptive_max_pool3d.default": Row((_F + "adaptive_max_pool3d",)),
}
BY_HAND = {
    *("aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default"),
    "aten.adaptive_max_pool1d.default",
}
# Window, stride, padding, dilation, ceil_mode.  With the third, PyTorch leaves the last window out that only padding
# would fill; with the fourth it does not, and TensorRT's layer has the same windows.
WINDOWS = [
    (3, 2, 1, 1, False),
    (1, 1, 0, 1, False),
    (3, 4, 1, 1, True),
    (3, 2, 0, 1, True),
    (2, 3, 1, 1, True),
    (3, 1, 1, 2, False),
    (3, 2, 1, 2, True),
]


def test_every_converter_has_samples() -> None:
    assert not missing({"pooling", "adaptive_pooling"}, {*ROWS, *BY_HAND})


@pytest.mark.parametrize("name", sorted(ROWS))
def test_samples(name: str) -> None:
    assert check_row(name, ROWS[name], 1, "11.4", dynamic=False)[0] > 0
    assert check_row(name, ROWS[name], 1, "8.6", dynamic=True, dtypes=1)[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROWS))
def test_all_samples(name: str) -> None:
    for target in ("8.6", "10.16", "11.4"):
        for dynamic in (False, True):
            check_row(name, ROWS[name], 40, target, dynamic=dynamic)


# Quick: the ends and one between; average pooling takes windows of the same kinds.
@pytest.mark.slow  # quick: test_samples
@thinned(("window", "stride", "padding", "dilation", "ceil"), WINDOWS, every=9)
def test_max_pool(window: int, stride: int, padding: int, dilation: int, ceil: bool) -> None:
    x = torch.randn(2, 3, 11, 7)
    # Rounding up, torch's own trace holds for some sizes only; before 2.12 also where a rest is left out.
    least = 1 if ceil or torch.__version__ < "2.12" else 2

    def rest(dims: int) -> tuple[object, ...]:
        return ([window] * dims, [stride] * dims, [padding] * dims, [dilation] * dims, ceil)

    assert converted("aten.max_pool2d.default", x, *rest(2), dynamic=True) >= least
    assert converted("aten.max_pool2d.default", x[0].half(), *rest(2), target="8.6") == 1
    assert converted("aten.max_pool2d.default", (x * 9).long(), *rest(2), dynamic=True, target="8.6") >= least
    assert converted("aten.max_pool1d.default", x[0], *rest(1), dynamic=True) >= least
    assert converted("aten.max_pool3d.default", torch.randn(1, 2, 7, 5, 6), *rest(3)) == 1
    ties = x.round()  # of equal elements PyTorch gives the index of the first
    assert converted("aten.max_pool2d_with_indices.default", ties, *rest(2), dynamic=True) >= least


# Quick: the ends and one between, as above.
@thinned(("window", "stride", "padding", "dilation", "ceil"), [w for w in WINDOWS if w[3] == 1], every=2)
@pytest.mark.parametrize("includes", [pytest.param(True, marks=pytest.mark.slow), False])
def test_avg_pool(window: int, stride: int, padding: int, dilation: int, ceil: bool, includes: bool) -> None:
    x = torch.randn(2, 3, 11, 7)
    least = 1 if ceil or torch.__version__ < "2.12" else 2
    two = ([window] * 2, [stride] * 2, [padding] * 2, ceil, includes)
    assert converted("aten.avg_pool2d.default", x, *two, None, dynamic=True) >= least
    assert converted("aten.avg_pool2d.default", x[0].half(), *two, 5, dynamic=True, target="8.6") >= least
    assert (
        converted("aten.avg_pool1d.default", x[0], [window], [stride], [padding], ceil, includes, dynamic=True) >= least
    )


def test_a_window_with_a_nan_gives_its_index() -> None:
    x = torch.randn(1, 1, 4, 4)
    x[0, 0, 1, 1] = float("nan")
    converted("aten.max_pool2d_with_indices.default", x, [2, 2])


def test_rows_of_minus_infinity_beside_padding_give_an_index_inside() -> None:
    x = torch.full((1, 1, 3, 3), -torch.inf)
    converted("aten.max_pool2d_with_indices.default", x, [2, 2], [1, 1], [1, 1])


@pytest.mark.slow  # quick: max pools, above
def test_the_largest_window_whose_indices_are_found() -> None:
    x = torch.randn(1, 1, 9, 9)
    assert converted("aten.max_pool2d_with_indices.default", x, [8, 8], [1, 1]) == 1
    converted("aten.max_pool2d_with_indices.default", x, [8, 9], [1, 1], refused="window-too-large")
    assert converted("aten.max_pool2d_with_indices.default", x, [8, 9], [1, 1], read=(0,)) == 1


def test_integers_have_no_average() -> None:
    x = torch.ones(1, 2, 4, 4, dtype=torch.int64)
    converted("aten.avg_pool2d.default", x, [2, 2], refused="integer-average")


# The least, one that divides nothing and one beyond every axis are quick.
@thinned("size", [1, 3, 4, 7, 13, 20], every=9)
def test_windows_that_share_out_evenly(size: int) -> None:
    """Sizes that divide, that do not, the input's own, and more than it has."""
    x1, x2, x3 = torch.randn(2, 3, 13), torch.randn(2, 3, 11, 7), torch.randn(1, 2, 7, 5, 6)
    assert converted("aten.adaptive_avg_pool1d.default", x1, [size], dynamic=True) == 4
    assert converted("aten.adaptive_avg_pool2d.default", x2, [size, 3], dynamic=True) == 4
    assert converted("aten.adaptive_avg_pool2d.default", x2[0].half(), [size, 1], dynamic=True, target="8.6") == 4
    assert converted("aten.adaptive_avg_pool3d.default", x3, [size, 1, 3]) == 1
    assert converted("aten.adaptive_max_pool1d.default", x1.round(), [size], dynamic=True) == 4
    assert converted("aten.adaptive_max_pool2d.default", x2.round(), [size, 7], dynamic=True, target="8.6") == 4
    assert converted("aten.adaptive_max_pool2d.default", x2, [size, 7], dynamic=True, read=(0,)) == 4


def test_infinity_stays_in_its_own_window() -> None:
    x = torch.ones(1, 1, 7, 5)
    x[0, 0, 0, 0] = torch.inf
    assert converted("aten.adaptive_avg_pool2d.default", x, [3, 2], dynamic=True) == 4
    assert converted("aten.adaptive_max_pool2d.default", -x, [3, 2], read=(0,)) == 1


@pytest.mark.parametrize("op", ["avg", "max"])
def test_pooling_to_no_elements(op: str) -> None:
    for size in ([0, 3], [3, 0], [0, 0]):
        assert converted(f"aten.adaptive_{op}_pool2d.default", torch.randn(2, 3, 5, 7), size, target="8.6") == 1
        assert converted(f"aten.adaptive_{op}_pool2d.default", torch.randn(2, 3, 5, 7), size, dynamic=True) > 1
