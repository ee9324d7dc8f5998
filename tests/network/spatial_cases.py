"""Layers with windows or coordinates, and those with indices."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from network_cases import Case, In

from trtdiag.network import DType
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.layers.gather import Gather, GatherMode, OneHot
from trtdiag.network.layers.pooling import PaddingMode, Pooling, PoolingType
from trtdiag.network.layers.resize import (
    GridSample,
    InterpolationMode,
    Resize,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
)
from trtdiag.network.layers.scatter import Scatter, ScatterMode
from trtdiag.network.layers.slice import SampleMode, Slice

IMAGE = In(("b", 4, "h", "w"))
VOLUME = In(("b", 4, "h", 5, "w"))
# Sums of up to 108 products of float32 in another order.
NEAR = 1e-4
_G = torch.Generator().manual_seed(7)


def _weights(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=_G)


def _conv(stride, pre, post, dilation=(1, 1), groups=1):
    return Convolution(stride, pre, post, dilation, groups)


def _pool(op, window, stride, pad=(0, 0), up=False, excludes=True):
    mode = PaddingMode.EXPLICIT_ROUND_UP if up else PaddingMode.EXPLICIT_ROUND_DOWN
    return Pooling(op, window, stride, pad, pad, mode, excludes)


_MAX, _AVG = PoolingType.MAX, PoolingType.AVERAGE
_C, _I, _RR = ResizeCoordinateTransformation, InterpolationMode, ResizeRoundMode
_FLIPPED = torch.tensor


def _resize_case(name, layer, expected):
    # Coordinates are float32 on both sides; a weight differs by an ulp of a coordinate below 64: 4e-6.
    return Case(f"resize_{name}", layer, (IMAGE,), expected, 1e-4)


def _grid_by_hand(x, grid):
    """Linear, corners aligned, border clamped: four pixels and their weights."""
    n, _, h, w = x.shape
    px = ((grid[..., 0] + 1) / 2 * (w - 1)).clamp(0, w - 1)
    py = ((grid[..., 1] + 1) / 2 * (h - 1)).clamp(0, h - 1)
    out = torch.zeros(n, x.shape[1], *grid.shape[1:3])
    batch = torch.arange(n).reshape(n, 1, 1)
    for dy in (0, 1):
        for dx in (0, 1):
            ix, iy = px.floor() + dx, py.floor() + dy
            weight = (1 - (px - ix).abs()) * (1 - (py - iy).abs())
            pixel = x[batch, :, iy.clamp(0, h - 1).long(), ix.clamp(0, w - 1).long()]
            out += (pixel * weight[..., None]).permute(0, 3, 1, 2)
    return out


_EMBED = In(("b", "s"), DType.INT64, below=11)
_ROWS = In(("b", "s"), DType.INT32, below="h")
_NEGATIVE_STRIDE = Slice((0, 4), (2, 3), (1, -2))

CASES = [
    Case("gather_one_of_a_vector", Gather(), (In(("h",)), torch.tensor(3)), lambda x, i: x[3]),
    Case(
        "convolution",
        _conv((2, 1), (1, 2), (1, 2), (1, 2)),
        (IMAGE, _weights(6, 4, 3, 3), _weights(6)),
        lambda x, k, b: F.conv2d(x, k, b, (2, 1), (1, 2), (1, 2)),
        NEAR,
    ),
    Case(
        "convolution_uneven_padding_groups",
        _conv((1, 3), (0, 1), (2, 0), groups=2),
        (IMAGE, _weights(6, 2, 3, 2)),
        lambda x, k: F.conv2d(F.pad(x, (1, 0, 0, 2)), k, None, (1, 3), groups=2),
        NEAR,
    ),
    Case(
        "convolution_3d",
        Convolution((2, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
        (VOLUME, _weights(2, 4, 3, 3, 3)),
        lambda x, k: F.conv3d(x, k, None, (2, 1, 1), 1),
        NEAR,
    ),
    Case(
        "deconvolution",
        Deconvolution((2, 3), (1, 1), (1, 1), (1, 1), 2),
        (IMAGE, _weights(4, 3, 3, 3), _weights(6)),
        lambda x, k, b: F.conv_transpose2d(x, k, b, (2, 3), 1, groups=2),
        NEAR,
    ),
    Case(
        "deconvolution_output_padding",
        Deconvolution((2, 2), (1, 1), (0, 0), (1, 1)),
        (IMAGE, _weights(4, 3, 3, 3)),
        lambda x, k: F.conv_transpose2d(x, k, None, 2, 1, output_padding=1),
        NEAR,
    ),
    Case("pool_max", _pool(_MAX, (3, 2), (2, 1), (1, 1)), (IMAGE,), lambda x: F.max_pool2d(x, (3, 2), (2, 1), 1)),
    Case(
        "pool_max_round_up",
        _pool(_MAX, (3, 3), (2, 2), up=True),
        (IMAGE,),
        lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    ),
    Case("pool_average", _pool(_AVG, (2, 3), (2, 2)), (IMAGE,), lambda x: F.avg_pool2d(x, (2, 3), 2), NEAR),
    *(
        Case(
            f"pool_average_padded_{'excluding' if excludes else 'including'}_{'up' if up else 'down'}",
            _pool(_AVG, (3, 3), (2, 2), (1, 1), up, excludes),
            (IMAGE,),
            # A window that reaches over the padding counts whole, in PyTorch as far as the padding.
            lambda x, up=up, excludes=excludes: F.avg_pool2d(
                x, 3, 2, 1, up, not excludes, divisor_override=9 if up and not excludes else None
            ),
            NEAR,
        )
        for up in (False, True)
        for excludes in (False, True)
    ),
    Case(
        "pool_average_uneven_padding_including_up",
        Pooling(_AVG, (3, 4), (2, 3), (1, 0), (0, 2), PaddingMode.EXPLICIT_ROUND_UP, False),
        (IMAGE,),
        lambda x: F.avg_pool2d(F.pad(x, (0, 2, 1, 0)), (3, 4), (2, 3), 0, True, divisor_override=12),
        NEAR,
    ),
    Case(
        "pool_3d_including_up",
        Pooling(_AVG, (2, 2, 3), (1, 3, 2), (1, 0, 1), (1, 0, 1), PaddingMode.EXPLICIT_ROUND_UP, False),
        (VOLUME,),
        lambda x: F.avg_pool3d(x, (2, 2, 3), (1, 3, 2), (1, 0, 1), True, divisor_override=12),
        NEAR,
    ),
    Case(
        "pool_3d",
        Pooling(_AVG, (2, 2, 2), (1, 2, 2), (0, 0, 0), (0, 0, 0)),
        (VOLUME,),
        lambda x: F.avg_pool3d(x, 2, (1, 2, 2)),
        NEAR,
    ),
    _resize_case(
        "linear_corners",
        Resize(_I.LINEAR, scales=(1, 1, 2.0, 1.5), coordinates=_C.ALIGN_CORNERS),
        lambda x: F.interpolate(x, (2 * x.size(2), int(1.5 * x.size(3))), mode="bilinear", align_corners=True),
    ),
    _resize_case(
        "linear_half_pixel",
        Resize(_I.LINEAR, scales=(1, 1, 0.5, 3.0), coordinates=_C.HALF_PIXEL),
        lambda x: F.interpolate(x, scale_factor=(0.5, 3.0), mode="bilinear"),
    ),
    _resize_case(
        "nearest",
        Resize(_I.NEAREST, scales=(1, 1, 2.0, 0.75), coordinates=_C.ASYMMETRIC, rounding=_RR.FLOOR),
        lambda x: F.interpolate(x, scale_factor=(2.0, 0.75), mode="nearest"),
    ),
    _resize_case(
        "nearest_exact",
        Resize(_I.NEAREST, scales=(1, 1, 2.5, 0.5), coordinates=_C.HALF_PIXEL, rounding=_RR.HALF_UP),
        lambda x: F.interpolate(x, scale_factor=(2.5, 0.5), mode="nearest-exact"),
    ),
    _resize_case(
        "cubic",
        Resize(_I.CUBIC, scales=(1, 1, 1.5, 2.0), coordinates=_C.HALF_PIXEL),
        lambda x: F.interpolate(x, scale_factor=(1.5, 2.0), mode="bicubic"),
    ),
    Case(
        "resize_one_pixel",
        Resize(_I.LINEAR, (3, 2, 1, 1), coordinates=_C.HALF_PIXEL, selector=ResizeSelector.UPPER),
        (In((3, 2, 5, 7)),),
        lambda x: x[:, :, :1, :1],
    ),
    Case(
        "resize_rounding",
        Resize(_I.NEAREST, (3,), coordinates=_C.ASYMMETRIC, rounding=_RR.CEIL),
        (In((7,)),),
        lambda x: x[[0, 3, 5]],  # 0, 7/3, 14/3
    ),
    Case(
        "resize_half_down",
        Resize(_I.NEAREST, (4,), coordinates=_C.HALF_PIXEL, rounding=_RR.HALF_DOWN),
        (In((8,)),),
        lambda x: x[[0, 2, 4, 6]],  # 0.5, 2.5, 4.5, 6.5
    ),
    Case(
        "grid_sample",
        GridSample(_I.LINEAR, True, SampleMode.CLAMP),
        (IMAGE, In(("b", "s", 3, 2))),
        _grid_by_hand,
        NEAR,
    ),
    Case("gather", Gather(axis=0), (_weights(11, 3), _EMBED), lambda x, i: F.embedding(i, x)),
    Case("gather_inner", Gather(axis=1), (IMAGE, torch.tensor([3, 0, 3])), lambda x, i: x[:, [3, 0, 3]]),
    Case(
        "gather_batch",
        Gather(axis=2, elementwise_dims=1),
        (In(("b", 3, "h", 2)), _ROWS),
        lambda x, i: torch.stack([x[n][:, i[n].long()].movedim(1, 0) for n in range(x.size(0))]).movedim(1, 2),
    ),
    Case(
        "gather_element",
        Gather(GatherMode.ELEMENT, 1),
        (In(("b", "h", 3)), In(("b", "s", 3), DType.INT64, below="h")),
        lambda x, i: torch.take_along_dim(x, i, 1),
    ),
    Case(
        "gather_nd",
        Gather(GatherMode.ND),
        (In((9, 9, "w")), In(("b", "s", 2), DType.INT32)),
        lambda x, i: x[i[..., 0].long(), i[..., 1].long()],
    ),
    Case(
        "gather_nd_batch",
        Gather(GatherMode.ND, elementwise_dims=1),
        (In(("b", 9, "w")), In(("b", "s", 1), DType.INT64)),
        lambda x, i: torch.stack([x[n][i[n, :, 0]] for n in range(x.size(0))]),
    ),
    Case(
        "scatter_element",
        Scatter(ScatterMode.ELEMENT, 1),
        (In(("b", "h", 3)), torch.tensor([[[4, 1, 0]]]), In((1, 1, 3))),
        lambda x, i, u: torch.cat([torch.where(torch.arange(x.size(1))[:, None] == i[0], u[0], x[0])[None], x[1:]]),
    ),
    Case(
        "scatter_nd",
        Scatter(ScatterMode.ND),
        (In((9, "w")), torch.tensor([[2], [7]]), In((2, "w"))),
        lambda x, i, u: torch.cat([x[:2], u[:1], x[3:7], u[1:], x[8:]]),
    ),
    Case(
        "one_hot",
        OneHot(1),
        (In(("b", "s"), DType.INT64, 7), torch.tensor([0.5, 2.0]), torch.tensor(7)),
        lambda i, v, d: (F.one_hot(i, 7).float() * 1.5 + 0.5).mT,
    ),
    Case("slice_backwards", _NEGATIVE_STRIDE, (In((3, 7)),), lambda x: x[:2].flip(1)[:, 2::2]),
    Case("slice_repeat", Slice((0, 0), (4, 3), (0, 1)), (In((1, 3)),), lambda x: x.expand(4, 3)),
    *(
        Case(f"slice_{mode.name}", Slice((0, -2), (2, 12), (1, 1), mode), (In((2, 7)),), expected)
        for mode, expected in {
            SampleMode.FILL: lambda x: F.pad(x, (2, 3)),
            SampleMode.CLAMP: lambda x: F.pad(x, (2, 3), "replicate"),
            SampleMode.REFLECT: lambda x: F.pad(x, (2, 3), "reflect"),
            SampleMode.WRAP: lambda x: F.pad(x, (2, 3), "circular"),
        }.items()
    ),
    Case(
        "slice_fill_value",
        Slice((-1, 0), (4, 7), (1, 1), SampleMode.FILL),
        (In((2, 7)), torch.tensor(3.5)),
        lambda x, v: F.pad(x, (0, 0, 1, 1), value=3.5),
    ),
]
