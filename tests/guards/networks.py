"""A network that several cases are made of."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class UNet(nn.Module):
    def __init__(self, depth=3, c=4, up="convT", norm=None):
        super().__init__()
        self.depth = depth
        self.up = up
        self.d = nn.ModuleList()
        self.u = nn.ModuleList()
        self.c = nn.ModuleList()
        ci = 3
        for _i in range(depth):
            self.d.append(nn.Conv2d(ci, c, 3, padding=1))
            ci = c
        for _i in range(depth):
            if up == "convT":
                self.u.append(nn.ConvTranspose2d(c, c, 2, stride=2))
            elif up == "shuffle":
                self.u.append(nn.Sequential(nn.Conv2d(c, c * 4, 1), nn.PixelShuffle(2)))
            else:
                self.u.append(nn.Upsample(scale_factor=2, mode="bilinear") if up == "upsample" else nn.Identity())
            self.c.append(nn.Conv2d(2 * c, c, 3, padding=1))
        self.n = norm or nn.Identity()
        self.o = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        sk = []
        for m in self.d:
            x = F.relu(self.n(m(x)))
            sk.append(x)
            x = F.max_pool2d(x, 2)
        for m, c, k in zip(self.u, self.c, reversed(sk), strict=False):
            x = F.interpolate(x, size=k.shape[-2:], mode="bilinear") if self.up == "interp" else m(x)
            x = F.relu(c(torch.cat([x, k], 1)))
        return self.o(x)
