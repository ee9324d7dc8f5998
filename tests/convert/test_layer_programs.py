"""Whole modules of dynamic batch and sizes: exported, lowered, converted into one network, and run at odd sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from tests.convert.op_check import OLD_THEN_NEW
from tests.harness.rows import thinned
from trtdiag.dims.system import dim_system
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.lower.facts import Checked
from trtdiag.lower.metadata import check_metadata
from trtdiag.network import run
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.plan_engines import convert_segments, plan_engines
from trtdiag.targets.versions import get_target

BATCH, HEIGHT, WIDTH = Dim("b", min=1, max=5), Dim("h", min=8, max=33), Dim("w", min=8, max=33)
LENGTH = Dim("s", min=2, max=33)
SIZES = [(1, 8, 8), (5, 33, 31), (2, 17, 8)]


class _Of(nn.Module):
    """A function as a module, with the modules that it needs."""

    def __init__(self, function: Callable[..., torch.Tensor], *modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, *self.parts)


def _applied(*modules: nn.Module) -> _Of:
    return _Of(lambda x, *parts: nn.Sequential(*parts)(x), *modules)


def _doubled(x: torch.Tensor, mode: str, **options: Any) -> torch.Tensor:
    return F.interpolate(x, size=(x.shape[2] * 2 - 1, x.shape[3] // 2), mode=mode, **options)


def _turned(x: torch.Tensor) -> torch.Tensor:
    theta = torch.tensor([[0.8, -0.6, 0.1], [0.6, 0.8, 0.0]]).expand(x.shape[0], 2, 3)
    return F.grid_sample(x, F.affine_grid(theta, [x.shape[0], 3, 9, 7], align_corners=False), align_corners=False)


def _skipped(x: torch.Tensor, down: nn.Module, up: nn.Module) -> torch.Tensor:
    small = down(F.max_pool2d(x, 2))
    return torch.cat([x, up(F.interpolate(small, size=x.shape[2:], mode="bilinear", align_corners=False))], 1)


IMAGES: dict[str, Callable[[], nn.Module]] = {
    "instance_norm_encoder": lambda: _applied(
        nn.Conv2d(3, 8, 3, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.Conv2d(8, 4, 3)
    ),
    "batch_norm_without_running_statistics": lambda: _applied(
        nn.Conv2d(3, 4, 3, padding="same"), nn.BatchNorm2d(4, track_running_stats=False)
    ),
    "batch_norm": lambda: _applied(nn.Conv2d(3, 4, 3, padding_mode="zeros"), nn.BatchNorm2d(4)),
    "group_norm": lambda: _applied(nn.Conv2d(3, 6, 1), nn.GroupNorm(3, 6), nn.GroupNorm(1, 6)),
    "local_response_norm": lambda: _applied(nn.Conv2d(3, 6, 1), nn.LocalResponseNorm(3)),
    "pyramid_of_pools": lambda: _Of(
        lambda x: torch.cat([F.adaptive_avg_pool2d(x, n).flatten(1) for n in (1, 2, 3, 6)], 1)
    ),
    "pool_to_none": lambda: _applied(nn.AdaptiveAvgPool2d((None, 3)), nn.AdaptiveMaxPool2d((2, None))),
    "pool_rounding_up": lambda: _applied(nn.MaxPool2d(3, 2, ceil_mode=True)),
    "unet": lambda: _Of(_skipped, nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 3, 1)),
    "transposed": lambda: _applied(nn.ConvTranspose2d(3, 4, 3, 2, 1, output_padding=1), nn.PixelShuffle(2)),
    "nearest": lambda: _Of(lambda x: _doubled(x, "nearest")),
    "nearest_exact": lambda: _Of(lambda x: _doubled(x, "nearest-exact")),
    "bilinear": lambda: _Of(lambda x: _doubled(x, "bilinear", align_corners=True)),
    "bicubic": lambda: _Of(lambda x: _doubled(x, "bicubic", align_corners=False)),
    "area": lambda: _Of(lambda x: _doubled(x, "area")),
    "antialias": lambda: _Of(lambda x: _doubled(x, "bilinear", antialias=True)),
    "scale_factor": lambda: _Of(lambda x: F.interpolate(x, scale_factor=(2.0, 1.5), mode="bilinear")),
    "affine_grid": lambda: _Of(_turned),
    "normalize": lambda: _Of(lambda x: F.normalize(x, dim=1) + F.cosine_similarity(x, x.flip(1), dim=1)[:, None]),
    "softmin": lambda: _Of(lambda x: F.softmin(x, dim=-1) + F.log_softmax(x, dim=1)),
    "einsum": lambda: _Of(lambda x: torch.einsum("bchw,bdhw->bcd", x, x.softmax(1))),
    "weight_norm": lambda: _applied(nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3))),
}


class _Attending(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.parts = nn.Linear(12, 36)
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.parts(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(query, key, value, **self.options).transpose(1, 2).flatten(2)


def _multihead(x: torch.Tensor, module: nn.Module) -> torch.Tensor:
    return module(x, x, x, need_weights=False)[0]


def _padded_attention(x: torch.Tensor) -> torch.Tensor:
    heads = x.unflatten(-1, (3, 4)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, attn_mask=(x[..., 0] > -0.3)[:, None, None, :])


SEQUENCES: dict[str, Callable[[], nn.Module]] = {
    "attention": lambda: _Attending(),
    "causal_attention": lambda: _Attending(is_causal=True, scale=0.3),
    "attention_of_what_is_not_padding": lambda: _Of(_padded_attention),
    "multihead": lambda: _Of(
        lambda x, m: m(x, x, x, need_weights=False)[0], nn.MultiheadAttention(12, 3, batch_first=True)
    ),
    "encoder_layer": lambda: _applied(nn.TransformerEncoderLayer(12, 3, 16, batch_first=True)),
    "bilinear": lambda: _Of(lambda x, m: m(x, x), nn.Bilinear(12, 12, 5)),
    "conv1d": lambda: _Of(lambda x, m: m(x.transpose(1, 2)), nn.Conv1d(12, 4, 3, padding=2, dilation=2)),
    "rms_norm": lambda: _applied(nn.RMSNorm(12), nn.LayerNorm(12)),
}


@dataclass(frozen=True)
class _Exported:
    """A model as it is before a target is chosen, and what it computes at other sizes than the example's."""

    captured: Program
    checked: Checked
    compared: tuple[tuple[torch.Tensor, torch.Tensor], ...]


@cache
def _exported(kind: str, name: str) -> _Exported:
    """Once for all targets."""
    torch.manual_seed(0)
    if kind == "image":
        others = [torch.randn(batch, 3, height, width) for batch, height, width in SIZES]
        module, example, dims = IMAGES[name](), torch.randn(2, 3, 12, 10), {0: BATCH, 2: HEIGHT, 3: WIDTH}
    else:
        others = [torch.randn(batch, length, 12) for batch, length in ((1, 2), (5, 33), (2, 7))]
        module, example, dims = SEQUENCES[name](), torch.randn(2, 6, 12), {0: BATCH, 1: LENGTH}
    captured = capture((module.eval(), (example,), {}, {"x": dims}))
    assert captured.exported is not None
    runs, compared = captured.exported.module(), []
    for x in others:
        try:
            with torch.no_grad():
                compared.append((x, runs(x)))
        except RuntimeError as error:
            # torch 2.11 exports poolings for sizes that leave no rest, and says so at run time.
            assert "Runtime assertion failed" in str(error)  # noqa: PT017 - it is no test of the error
    assert compared
    return _Exported(captured, check_metadata(captured), tuple(compared))


def _check(kind: str, name: str, target: str) -> None:
    model = _exported(kind, name)
    options = CompileOptions(partition=PartitionOptions(require_full=True))
    dims = dim_system(model.captured)
    plan = plan_engines(model.captured, model.checked, dims, get_target(target), options)
    _, (segment,) = convert_segments(plan)
    for x, wanted in model.compared:
        (got,) = run(segment.network, [x])
        # float32, sums of up to some hundred terms in another order.
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


# The layers are quick one by one in test_ops_*.py.
@thinned("name", sorted(IMAGES), every=99)
@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_images(name: str, target: str) -> None:
    _check("image", name, target)


# The layers are quick one by one in test_ops_*.py.
@thinned("name", sorted(SEQUENCES), every=9)
@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_sequences(name: str, target: str) -> None:
    _check("sequence", name, target)
