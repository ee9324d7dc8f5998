"""A detector in the manner of YOLOv8."""

from __future__ import annotations

import functools

import torch
from torch import nn


class Yolo(nn.Module):
    """YOLOv8-like: C2f backbone, SPPF, PAN neck, decoupled head with distribution-focal box decoding."""

    def __init__(self, c=(16, 32, 64, 128, 256), n=(1, 2, 2, 1), nc=80, reg=16):
        super().__init__()

        class Cv(nn.Sequential):
            def __init__(self, i, o, k=1, st=1):
                super().__init__(nn.Conv2d(i, o, k, st, k // 2, bias=False), nn.BatchNorm2d(o), nn.SiLU())

        class C2f(nn.Module):
            def __init__(self, i, o, n, add=True):
                super().__init__()
                self.a, self.b, self.add = Cv(i, o), Cv((2 + n) * o // 2, o), add
                self.m = nn.ModuleList(nn.Sequential(Cv(o // 2, o // 2, 3), Cv(o // 2, o // 2, 3)) for _ in range(n))

            def forward(self, x):
                y = list(self.a(x).chunk(2, 1))
                for m in self.m:
                    y.append(y[-1] + m(y[-1]) if self.add else m(y[-1]))
                return self.b(torch.cat(y, 1))

        self.nc, self.reg = nc, reg
        self.stem = Cv(3, c[0], 3, 2)
        self.stages = nn.ModuleList(
            nn.Sequential(Cv(i, o, 3, 2), C2f(o, o, k)) for i, o, k in zip(c, c[1:], n, strict=False)
        )
        self.sp1, self.sp2 = Cv(c[4], c[4] // 2), Cv(c[4] * 2, c[4])
        self.t4, self.t3 = C2f(c[4] + c[3], c[3], 1, False), C2f(c[3] + c[2], c[2], 1, False)
        self.d3, self.d4 = Cv(c[2], c[2], 3, 2), Cv(c[3], c[3], 3, 2)
        self.b4, self.b5 = C2f(c[2] + c[3], c[3], 1, False), C2f(c[3] + c[4], c[4], 1, False)
        self.box = nn.ModuleList(nn.Sequential(Cv(i, 64, 3), Cv(64, 64, 3), nn.Conv2d(64, 4 * reg, 1)) for i in c[2:])
        self.cls = nn.ModuleList(nn.Sequential(Cv(i, 80, 3), Cv(80, 80, 3), nn.Conv2d(80, nc, 1)) for i in c[2:])
        self.register_buffer("proj", torch.arange(reg).float())

    def forward(self, x):
        x, f = self.stem(x), []
        for s in self.stages:
            x = s(x)
            f.append(x)
        p3, p4, p5 = f[1:]
        y = [self.sp1(p5)]
        for _ in range(3):
            y.append(nn.functional.max_pool2d(y[-1], 5, 1, 2))
        p5 = self.sp2(torch.cat(y, 1))
        up = functools.partial(nn.functional.interpolate, scale_factor=2.0, mode="nearest")
        p4 = self.t4(torch.cat([up(p5), p4], 1))
        p3 = self.t3(torch.cat([up(p4), p3], 1))
        p4 = self.b4(torch.cat([self.d3(p3), p4], 1))
        p5 = self.b5(torch.cat([self.d4(p4), p5], 1))
        out = []
        for k, p in enumerate((p3, p4, p5)):
            n, _, h, w = p.shape
            rows, columns = (torch.arange(size, device=p.device) + 0.5 for size in (h, w))
            gy, gx = torch.meshgrid(rows, columns, indexing="ij")
            g = torch.stack((gx, gy), 0).reshape(1, 2, -1)
            d = self.box[k](p).reshape(n, 4, self.reg, h * w).softmax(2)
            lt, rb = torch.einsum("bcrn,r->bcn", d, self.proj).chunk(2, 1)
            box = torch.cat(((g - lt + g + rb) / 2, rb + lt), 1) * (8 << k)
            out.append(torch.cat((box, self.cls[k](p).flatten(2).sigmoid()), 1))
        return torch.cat(out, 2)
