"""Super-resolution, restoration and style."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.export import Dim

from tests.models.asks import BATCH, BATCH_HW, image, single
from tests.models.registry import zoo


@zoo("restoration")
def espcn():
    return single(
        nn.Sequential(
            nn.Conv2d(1, 64, 5, 1, 2),
            nn.Tanh(),
            nn.Conv2d(64, 32, 3, 1, 1),
            nn.Tanh(),
            nn.Conv2d(32, 9, 3, 1, 1),
            nn.PixelShuffle(3),
        ),
        image(64, 72, 2, 1),
        BATCH_HW,
    )


class Res(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


@zoo("restoration")
def rrdbnet():
    """Real-ESRGAN generator: 23 residual-in-residual dense blocks, nearest upsampling."""

    class Dense(nn.Module):
        def __init__(self, f=16, g=8):
            super().__init__()
            self.c = nn.ModuleList(nn.Conv2d(f + k * g, g if k < 4 else f, 3, 1, 1) for k in range(5))

        def forward(self, x):
            y = [x]
            for k, c in enumerate(self.c):
                z = c(torch.cat(y, 1))
                y.append(nn.functional.leaky_relu(z, 0.2) if k < 4 else z)
            return y[-1] * 0.2 + x

    class Net(nn.Module):
        def __init__(self, f=16):
            super().__init__()
            self.i, self.b = (
                nn.Conv2d(3, f, 3, 1, 1),
                nn.ModuleList(nn.Sequential(Dense(), Dense(), Dense()) for _ in range(23)),
            )
            self.t, self.u, self.o = (
                nn.Conv2d(f, f, 3, 1, 1),
                nn.ModuleList(nn.Conv2d(f, f, 3, 1, 1) for _ in range(3)),
                nn.Conv2d(f, 3, 3, 1, 1),
            )

        def forward(self, x):
            x = h = self.i(x)
            for b in self.b:
                h = b(h) * 0.2 + h
            x = x + self.t(h)
            for u in self.u[:2]:
                x = nn.functional.leaky_relu(u(nn.functional.interpolate(x, scale_factor=2, mode="nearest")), 0.2)
            return self.o(nn.functional.leaky_relu(self.u[2](x), 0.2))

    return single(Net(), image(64, 72), BATCH_HW)


@zoo("restoration")
def style_transfer_in():
    """Fast neural style: reflection padding, InstanceNorm, nearest upsampling."""

    def c(i, o, k, s=1, up=False):
        return nn.Sequential(
            *([nn.Upsample(scale_factor=2)] if up else []),
            nn.ReflectionPad2d(k // 2),
            nn.Conv2d(i, o, k, s),
            nn.InstanceNorm2d(o, affine=True),
        )

    m = nn.Sequential(
        c(3, 32, 9),
        nn.ReLU(),
        c(32, 64, 3, 2),
        nn.ReLU(),
        c(64, 64, 3, 2),
        nn.ReLU(),
        *[Res(c(64, 64, 3), nn.ReLU(), c(64, 64, 3)) for _ in range(5)],
        c(64, 64, 3, 1, True),
        nn.ReLU(),
        c(64, 32, 3, 1, True),
        nn.ReLU(),
        nn.ReflectionPad2d(4),
        nn.Conv2d(32, 3, 9),
    )
    return single(
        m, image(128, 160), {0: BATCH, 2: 4 * Dim("_h4", min=16, max=128), 3: 4 * Dim("_w4", min=16, max=128)}
    )


@zoo("restoration")
def pix2pix_unet():
    """Conditional GAN generator: LeakyReLU, ConvTranspose2d, GroupNorm, Softplus/ELU/hardswish/mish heads."""

    class Net(nn.Module):
        def __init__(self, ch=(3, 16, 32, 64, 64)):
            super().__init__()
            self.d = nn.ModuleList(
                nn.Sequential(nn.Conv2d(i, o, 4, 2, 1), nn.GroupNorm(4, o), nn.LeakyReLU(0.2))
                for i, o in itertools.pairwise(ch)
            )
            self.u = nn.ModuleList(
                nn.Sequential(
                    nn.ConvTranspose2d(2 * o if k < 3 else o, max(i, 16), 4, 2, 1),
                    nn.GroupNorm(4, max(i, 16)),
                    (nn.ELU(), nn.Hardswish(), nn.Mish(), nn.Softplus())[k],
                )
                for k, (i, o) in enumerate(itertools.pairwise(ch))
            )
            self.o = nn.Conv2d(16, 3, 3, 1, 1)

        def forward(self, x):
            s = []
            for d in self.d:
                x = d(x)
                s.append(x)
            for k in (3, 2, 1, 0):
                x = self.u[k](x if k == 3 else torch.cat([x, s[k]], 1))
            return self.o(x).tanh()

    return single(
        Net(), image(128, 160), {0: BATCH, 2: 16 * Dim("_h16", min=4, max=32), 3: 16 * Dim("_w16", min=4, max=32)}
    )
