"""Interpolation and grid sampling: by size, by factor, with both ends of a range."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.convert.family_samples import Row, check_row, converted, missing
from tests.harness.rows import thinned

_INTERPOLATE = ("nn.functional.interpolate",)
_NEAREST = [f"{kind}{dims}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for dims in (1, 2, 3)]
_SMOOTH = ["upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"]
_BLURRED = ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"]
# In float16 PyTorch computes grid coordinates with 11 bits: between pixels that shows in the second digit, and a
# mirrored coordinate comes to lie at another pixel.  The network computes them in float32.
COARSE = {"aten.grid_sampler_2d.default"}
ROWS = {f"aten.{name}.default": Row(_INTERPOLATE) for name in (*_NEAREST, *_SMOOTH)} | {
    "aten.grid_sampler_2d.default": Row(("grid_sampler_2d",), near={torch.float16: 2e-2}),
    "aten.grid_sampler_3d.default": Row(("grid_sampler_3d",), dtypes=(torch.float32,)),
}
BY_HAND = {f"aten.{name}.vec" for name in (*_NEAREST, *_SMOOTH, *_BLURRED)} | {
    f"aten.{name}.default" for name in _BLURRED
}
BY_HAND |= {"aten.grid_sampler.default"}
ON_GPU = {"aten.cudnn_grid_sampler.default"}
# Twice and half divide; 1.5 leaves a rest; 1.75 and 0.625 are factors the layer takes; 1.7 and 1/3 are not.
FACTORS = [2.0, 0.5, 1.5, 0.625, 1.7, 1 / 3]
DYNAMIC = [2.0, 0.5, 1.5, 0.625]


def test_every_converter_has_samples() -> None:
    assert not missing({"upsample", "grid_sampling"}, {*ROWS, *BY_HAND, *ON_GPU})


# Quick: one of both targets, in turn.
@pytest.mark.parametrize(("at", "name"), list(enumerate(sorted(ROWS))))
def test_samples(at: int, name: str) -> None:
    assert check_row(name, ROWS[name], 1, ("8.6", "11.4")[at % 2], dynamic=False)[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROWS))
def test_all_samples(name: str) -> None:
    row = replace(ROWS[name], dtypes=(torch.float32,)) if name in COARSE else ROWS[name]
    for target in ("8.6", "10.16", "11.4"):
        for dynamic in (False, True):
            check_row(name, row, 12, target, dynamic=dynamic)


def _image(dims: int) -> torch.Tensor:
    return torch.randn([2, 3, 11, 7, 5][: 2 + dims])


# Quick: of images; all of them have samples.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "upsample_nearest2d" else pytest.mark.slow) for name in _NEAREST]
)
def test_nearest_by_factor(name: str) -> None:
    dims = int(name[-2])
    x = _image(dims)
    for factor in FACTORS:
        assert converted(f"aten.{name}.vec", x, None, [factor] * dims) == 1
    converted(f"aten.{name}.vec", (x * 9).abs().to(torch.uint8), None, [2.0] * dims, refused="narrow-integer")
    for factor in DYNAMIC:
        assert converted(f"aten.{name}.vec", x.half(), None, [factor] * dims, dynamic=True) == 4


@pytest.mark.parametrize("align", [False, pytest.param(True, marks=pytest.mark.slow)])
# Every one is quick in test_samples.
@thinned("name", [*_SMOOTH, *_BLURRED], every=9)
def test_smooth_by_factor(name: str, align: bool) -> None:
    dims = 1 if name == "upsample_linear1d" else 3 if name == "upsample_trilinear3d" else 2
    x = _image(dims)
    for factor in FACTORS:
        assert converted(f"aten.{name}.vec", x, None, align, [factor] * dims) == 1


@pytest.mark.parametrize("name", ["upsample_bilinear2d", "_upsample_bicubic2d_aa"])
# Quick: the first; static sizes are quick with each factor.
@pytest.mark.parametrize("factor", [DYNAMIC[0], *(pytest.param(each, marks=pytest.mark.slow) for each in DYNAMIC[1:])])
def test_smooth_by_factor_of_any_size(name: str, factor: float) -> None:
    assert converted(f"aten.{name}.vec", _image(2), None, False, [factor] * 2, dynamic=True, target="8.6") == 4


# Quick: larger along one axis and smaller along the other.
@pytest.mark.parametrize("size", [[22, 5], *(pytest.param(size, marks=pytest.mark.slow) for size in ([1, 1], [11, 9]))])
# Quick: corners that are not aligned; by factors they are, too.
@pytest.mark.parametrize("align", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.slow  # quick: by factor, here
def test_smooth_by_size(size: list[int], align: bool) -> None:
    x = _image(2)
    for name in ("upsample_bilinear2d", *_BLURRED):
        assert converted(f"aten.{name}.default", x, size, align, dynamic=True) == 4
    assert converted("aten.upsample_bicubic2d.default", x, size, align) == 1
    assert converted("aten.upsample_bilinear2d.vec", x.half(), size, align, None, target="8.6") == 1


def test_a_factor_that_makes_no_whole_number_exactly_is_refused_for_sizes_that_are_not_known() -> None:
    converted("aten.upsample_nearest2d.vec", _image(2), None, [1.7, 2.0], dynamic=True, refused="size-expression")


def test_integers_are_refused_where_they_would_be_averaged() -> None:
    x = torch.ones(1, 1, 4, 4, dtype=torch.int32)
    converted("aten.upsample_bilinear2d.vec", x, [8, 8], False, None, refused="integer-resize")


# Quick: two modes and two paddings, each once; the others are slow, and have samples.
@pytest.mark.parametrize(
    ("mode", "padding"),
    [
        pytest.param(mode, padding, marks=() if (mode, padding) in ((0, 2), (2, 0)) else pytest.mark.slow)
        for mode in (0, 1, 2)
        for padding in (0, 1, 2)
    ],
)
def test_points_inside_and_outside_of_an_image(mode: int, padding: int) -> None:
    grid = torch.rand(2, 4, 9, 2) * 2.4 - 1.2
    for align in (False, True):
        assert converted("aten.grid_sampler.default", _image(2), grid, mode, padding, align) == 1


@pytest.mark.slow  # quick: static points, above, and volumes of any number, below
def test_points_of_any_number() -> None:
    grid = torch.rand(2, 4, 9, 2) * 2.4 - 1.2
    assert converted("aten.grid_sampler.default", _image(2), grid, 0, 0, False, dynamic=True, shared=True) == 4


# Quick: one alignment; images have both, and the other mode.
@pytest.mark.parametrize("mode", [0, pytest.param(1, marks=pytest.mark.slow)])
# Every padding is slow; the ends are other code.
@thinned("padding", [0, 1, 2], every=9)
@pytest.mark.parametrize("align", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_points_inside_and_outside_of_a_volume(mode: int, padding: int, align: bool) -> None:
    volume, grid = torch.randn(2, 3, 5, 4, 1), torch.rand(2, 4, 3, 9, 3) * 5 - 2.5
    assert converted("aten.grid_sampler.default", volume, grid, mode, padding, align, target="8.6") == 1
    assert converted("aten.grid_sampler_3d.default", volume, grid, mode, padding, align, dynamic=True, shared=True) > 1
