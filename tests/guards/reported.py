"""Programs in the shape of public issue reports."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from tests.guards.asks import Span, noise, sizes
from tests.guards.registry import Live, case


class _I(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


class _I2(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x, y):
        return self.f(x, y)


class _I3(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x, y, z):
        return self.f(x, y, z)


@case("issues", "two-input", "multi-symbol", note="as pytorch#146315: cat(x, y) + z[:, ::2], no bounds given there")
def iss146315_cat_strided():
    b = Span("batch", 1, 1024)
    return Live(
        model=_I3(lambda x, y, z: torch.cat((x, y), 1) + z[:, ::2]),
        args=(torch.randn(2, 3), torch.randn(2, 5), torch.randn(2, 16)),
        spec=({0: b, 1: Span("dx", 1, 512)}, {0: b, 1: Span("dy", 1, 512)}, {0: b, 1: Span("dz", 1, 2048)}),
    )


@case("issues", "two-input", "sum-const", note="as pytorch#172561: x.shape[1] + y.shape[1] == 32")
def iss172561_sum_const():

    class S(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(32, 16)

        def forward(self, x, y):
            return self.l(torch.cat([x, y], 1))

    return Live(
        model=S(),
        args=(torch.randn(1, 10), torch.randn(1, 22)),
        spec=({1: Span("x_dim", 1, 31)}, {1: Span("y_dim", 1, 31)}),
    )


@case("issues", "image", note="as pytorch#124507: ResNet with dynamic height")
def iss124507_resnet_height():
    import torchvision

    return Live(
        model=torchvision.models.resnet18(num_classes=4),
        args=(noise(1, 3, 640, 64),),
        spec=({2: Span("height", 320, 7680)},),
    )


@case("issues", "image", "pad-branch", note="as pytorch#136216: pad to 32, example already divisible")
def iss136216_pad32_aligned():

    def f(x):
        H, W = x.shape[-2:]
        a, b = ((32 - H % 32) % 32, (32 - W % 32) % 32)
        if a > 0 or b > 0:
            x = F.pad(x, (b // 2, b - b // 2, a // 2, a - a // 2), mode="reflect")
        return F.avg_pool2d(x, 2)

    return Live(model=_I(f), args=(noise(1, 1, 224, 224),), spec=(sizes(224, 1024),))


@case("issues", "image", "pad-branch", note="as pytorch#136216 with the 225 x 225 example")
def iss136216_pad32_unaligned():
    return replace(iss136216_pad32_aligned(), args=(noise(1, 1, 225, 225),))


@case("issues", "two-input", "relation", note="as pytorch#181097: x is 5 times y, dim_size 1 must work")
def iss181097_five_times():
    return Live(
        model=_I2(lambda x, y: [x.view(5, -1)[i] - y for i in range(5)]),
        args=(torch.randn(20), torch.randn(4)),
        spec=({0: Span("bx", 5, 40)}, {0: Span("by", 1, 8)}),
    )


@case("issues", "seq", "quadratic", note="guard of pytorch#124502's form: s*(s+1) % 8")
def iss124502_quadratic():

    def f(x):
        t = x.shape[1]
        m = torch.ones(t, t + 1)
        return m.reshape(-1, 8).sum() + x

    return Live(model=_I(f), args=(torch.randn(1, 16),), spec=({1: Span("seq_len", 1, 1024)},))


@case("issues", "seq", "tautology", note="guard that holds everywhere but torch cannot see it: L*(8 + L - L % 8) > 1")
def iss_mask_pad8_tautology():

    def f(x):
        L = x.shape[1]
        p = 8 - L % 8
        m = torch.zeros(L, L + p)
        return x.unsqueeze(-1) @ x.unsqueeze(1) + m[:, :L]

    return Live(model=_I(f), args=(torch.randn(1, 15),), spec=({1: Span("L", 2, 4096)},))
