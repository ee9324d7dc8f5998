"""Pieces of a U-Net in float16 on TensorRT, each longer by an op: the first that is wrong tells where; needs a GPU.

TensorRT 8.6.0 has built wrong engines of the whole whose pieces are right; `compile` mends them, or says it cannot.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from tests.compiling.seed_models import UNet
from trtdiag.options import CompileOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target, installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("whole_float32"),
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
SIZES = ((200, 200), (224, 256), (251, 293), (400, 400))


def _normed(net: UNet, x: Tensor) -> Tensor:
    return F.silu(net.norm(net.deep(F.relu(net.second(F.relu(net.first(x)))))))


def _grown(net: UNet, x: Tensor) -> Tensor:
    a = F.relu(net.first(x))
    return F.interpolate(_normed(net, x), size=a.shape[-2:], mode="bilinear", align_corners=False)


def _beside(net: UNet, x: Tensor) -> Tensor:
    return torch.cat([F.relu(net.first(x)), _grown(net, x)], 1)


def _joined(net: UNet, x: Tensor) -> Tensor:
    return F.relu(net.join(_beside(net, x)))


def _ended(net: UNet, x: Tensor) -> Tensor:
    return net.end(_joined(net, x))


def _shuffled(net: UNet, x: Tensor) -> Tensor:
    return F.pixel_shuffle(_ended(net, x), 2)


def _without_norm(net: UNet, x: Tensor) -> Tensor:
    a = F.relu(net.first(x))
    b = F.silu(net.deep(F.relu(net.second(a))))
    up = F.interpolate(b, size=a.shape[-2:], mode="bilinear", align_corners=False)
    y = F.pixel_shuffle(net.end(F.relu(net.join(torch.cat([a, up], 1)))), 2)
    return F.interpolate(y, size=x.shape[-2:], mode="nearest") + x


def _whole(net: UNet, x: Tensor) -> Tensor:
    return net(x)


class Piece(nn.Module):
    """A part of what the U-Net computes."""

    def __init__(self, of: Callable[[UNet, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net, self.of = UNet(), of

    def forward(self, x: Tensor) -> Tensor:
        return self.of(self.net, x)


@pytest.mark.parametrize(
    "of", [_normed, _grown, _beside, _joined, _ended, _shuffled, _without_norm, _whole], ids=lambda of: of.__name__[1:]
)
def test_a_piece_in_half_precision(of: Callable[[UNet, Tensor], Tensor]) -> None:
    module = Piece(of).eval()
    dims = {"x": {2: Dim("h", min=200, max=400), 3: Dim("w", min=200, max=400)}}
    options = CompileOptions(get_target(None).version, "tensorrt", Precision.FP16, optimization_level=1, force=True)
    found = compile_in_stages((module, (torch.randn(1, 3, 224, 256),), {}, dims), options)
    assert found.verification is not None
    assert found.verification.passed, found.verification.culprit
    compiled = found.compiled
    for height, width in SIZES:
        x = torch.randn(1, 3, height, width)
        with torch.no_grad():
            expected = module(x)
        # A few roundings to float16, of 2**-11 each, of values up to 5 through four layers.
        torch.testing.assert_close(compiled(x.cuda()).cpu(), expected, rtol=2e-2, atol=2e-2)
