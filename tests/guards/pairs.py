"""Several inputs whose sizes depend on each other."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.guards.asks import Span, noise
from tests.guards.networks import UNet
from tests.guards.registry import Live, case


class TwoSame(nn.Module):
    def forward(self, x, mask):
        return (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)


@case("hand", "two-input")
def masked_pool_two_dims():
    return Live(
        model=TwoSame(),
        args=(torch.randn(2, 12, 8), torch.ones(2, 12)),
        spec=({0: Span("bx", 1, 64), 1: Span("tx", 2, 4096)}, {0: Span("bm", 1, 64), 1: Span("tm", 2, 4096)}),
    )


class Down2(nn.Module):
    def forward(self, x, y):
        return F.avg_pool1d(x, 2) + y


@case("hand", "two-input", "relation")
def lowres_guide():
    return Live(
        model=Down2(),
        args=(torch.randn(2, 4, 64), torch.randn(2, 4, 32)),
        spec=({2: Span("tx", 2, 4096)}, {2: Span("ty", 2, 4096)}),
    )


class Strided(nn.Module):
    def forward(self, x, y):
        return x[:, ::2] * y


@case("hand", "two-input", "relation")
def strided_pair():
    return Live(
        model=Strided(),
        args=(torch.randn(2, 20, 4), torch.randn(2, 10, 4)),
        spec=({1: Span("tx", 2, 4096)}, {1: Span("ty", 2, 4096)}),
    )


@case("hand", "two-input", "relation")
def strided_pair_oddlen():
    return Live(
        model=Strided(),
        args=(torch.randn(2, 21, 4), torch.randn(2, 11, 4)),
        spec=({1: Span("tx", 2, 4096)}, {1: Span("ty", 2, 4096)}),
    )


class Pyramid3(nn.Module):
    def forward(self, p3, p4, p5):
        p4 = p4 + F.interpolate(p5, scale_factor=2)
        return p3 + F.interpolate(p4, scale_factor=2)


@case("hand", "two-input", "relation")
def fpn_three_inputs():
    return Live(
        model=Pyramid3(),
        args=(noise(1, 4, 32, 40), noise(1, 4, 16, 20), noise(1, 4, 8, 10)),
        spec=(
            {2: Span("h3", 4, 512), 3: Span("w3", 4, 512)},
            {2: Span("h4", 2, 512), 3: Span("w4", 2, 512)},
            {2: Span("h5", 2, 512), 3: Span("w5", 2, 512)},
        ),
    )


class SumDims(nn.Module):
    def forward(self, a, b, c):
        return torch.cat([a, b], 1) * c


@case("hand", "two-input", "multi-symbol")
def cat_sum_dims():
    return Live(
        model=SumDims(),
        args=(torch.randn(2, 5, 4), torch.randn(2, 7, 4), torch.randn(2, 12, 4)),
        spec=({1: Span("ta", 2, 512)}, {1: Span("tb", 2, 512)}, {1: Span("tc", 2, 1024)}),
    )


class StereoCat(nn.Module):
    def __init__(self):
        super().__init__()
        self.u = UNet(2)
        self.c = nn.Conv2d(6, 3, 1)

    def forward(self, left, right):
        return self.u(self.c(torch.cat([left, right], 1)))


@case("hand", "two-input", "unet", note="naive separate dims for left and right")
def stereo_unet_separate():
    return Live(
        model=StereoCat(),
        args=(noise(1, 3, 64, 80), noise(1, 3, 64, 80)),
        spec=({2: Span("hl", 4, 2048), 3: Span("wl", 4, 2048)}, {2: Span("hr", 4, 2048), 3: Span("wr", 4, 2048)}),
    )
