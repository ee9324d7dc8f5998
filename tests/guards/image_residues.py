"""Image networks that allow some residues of their sizes only."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.guards.asks import BATCH, noise, sizes
from tests.guards.registry import Live, case


class Patchify(nn.Module):
    def __init__(self, p=16, rest=True):
        super().__init__()
        self.p = p
        self.l = nn.Linear(3 * p * p, 3 * p * p)

    def forward(self, x):
        B, C, H, W = x.shape
        p = self.p
        t = x.reshape(B, C, H // p, p, W // p, p).permute(0, 2, 4, 1, 3, 5).reshape(B, H // p * (W // p), C * p * p)
        t = self.l(t)
        return t.reshape(B, H // p, W // p, C, p, p).permute(0, 3, 1, 4, 2, 5).reshape(B, C, H, W)


@case("hand", "image", "patchify")
def patchify16():
    return Live(model=Patchify(16), args=(noise(1, 3, 64, 96),), spec=({0: BATCH, **sizes(16, 2048)},))


class ConvDeconv2(nn.Module):
    """two valid stride-2 convs and their transposes: H = 3 mod 4"""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 4, 3, 2)
        self.c2 = nn.Conv2d(4, 4, 3, 2)
        self.d1 = nn.ConvTranspose2d(4, 4, 3, 2)
        self.d2 = nn.ConvTranspose2d(4, 3, 3, 2)

    def forward(self, x):
        a = self.c1(x)
        b = self.c2(a)
        return x + self.d2(a + self.d1(b))


@case("hand", "image", "residue")
def conv_deconv_3mod4():
    return Live(model=ConvDeconv2(), args=(noise(1, 3, 35, 43),), spec=(sizes(7, 2160),))


class InceptionMismatch(nn.Module):
    """pool k4 s4 vs conv k2 s4 branches: equal output iff H%4 in {0,1} (a union of residues)"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 2, 4)
        self.p = nn.MaxPool2d(4, 4)

    def forward(self, x):
        return torch.cat([self.c(x), self.p(x)], 1)


@case("hand", "image", "residue-union")
def branch_union_0mod4():
    return Live(model=InceptionMismatch(), args=(noise(1, 3, 32, 40),), spec=(sizes(4, 2160),))


class TwoPath(nn.Module):
    """conv k3 s2 p1 (ceil) + avgpool 2 (floor) residual: needs H even"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 3, 3, 2, 1)

    def forward(self, x):
        return self.c(x) + F.avg_pool2d(x, 2)


@case("hand", "image", "residue")
def resnetd_shortcut_even():
    return Live(model=TwoPath(), args=(noise(1, 3, 64, 80),), spec=(sizes(2, 2160),))


class NestedFloor(nn.Module):
    """three valid stride-2 pools with odd offsets then upsample x8 + skip crop check"""

    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv2d(3, 3, 3, 2, 1) for _ in range(3)])

    def forward(self, x):
        y = x
        for c in self.c:
            y = c(y)
        return F.interpolate(y, scale_factor=8.0, mode="nearest") + x


@case("hand", "image", "nested-floor")
def nested_floor_x8():
    return Live(model=NestedFloor(), args=(noise(1, 3, 64, 72),), spec=(sizes(8, 2160),))


class CeilPoolUnion(nn.Module):
    """ceil-mode pool s3 vs conv s3: residue union"""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 3, 3, 3)

    def forward(self, x):
        return self.c(x) + F.max_pool2d(x, 2, 3, ceil_mode=False)


@case("hand", "image", "residue-union")
def branch_union_3():
    return Live(model=CeilPoolUnion(), args=(noise(1, 3, 33, 42),), spec=(sizes(3, 2160),))


class Square(nn.Module):
    def forward(self, x):
        return x + x.transpose(-1, -2)


@case("hand", "image", "equality")
def square_only():
    return Live(model=Square(), args=(torch.randn(2, 3, 9, 9),), spec=(sizes(2, 512),))


class BranchSize(nn.Module):
    def forward(self, x):
        if x.shape[2] > 512:
            x = F.avg_pool2d(x, 2)
        return x * 2


@case("hand", "image", "range")
def branch_on_size():
    return Live(model=BranchSize(), args=(noise(1, 3, 64, 64),), spec=(sizes(2, 4096),))


class InterpHalf(nn.Module):
    def forward(self, x):
        return F.interpolate(F.interpolate(x, scale_factor=0.5, mode="bilinear"), scale_factor=2.0, mode="bilinear") + x


@case("hand", "image", "float")
def interp_half_double():
    return Live(model=InterpHalf(), args=(noise(1, 3, 32, 40),), spec=(sizes(4, 1024),))


class AdaptPool(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        return torch.cat(
            [F.interpolate(F.adaptive_avg_pool2d(x, k), size=x.shape[-2:], mode="bilinear") for k in self.k], 1
        )


@case("hand", "image", "adaptive-pool")
def ppm_adaptive_pool():
    return Live(model=AdaptPool((1, 2, 3, 6)), args=(noise(1, 3, 60, 60),), spec=(sizes(6, 1024),))


@case("hand", "image", "adaptive-pool")
def ppm_adaptive_pool_nondiv():
    return Live(model=AdaptPool((1, 2, 3, 6)), args=(noise(1, 3, 50, 61),), spec=(sizes(6, 1024),))


class ConcatPairTokens(nn.Module):
    """Qwen-VL/InternVL pixel-shuffle of patch tokens: (H/14) and (W/14) even"""

    def __init__(self):
        super().__init__()
        self.pe = nn.Conv2d(3, 4, 14, 14)

    def forward(self, x):
        t = self.pe(x)
        B, C, h, w = t.shape
        return t.reshape(B, C, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(B, -1, 4 * C)


@case("hand", "image", "nested-floor", note="guard on (H-14)//14+1 even: H in union of residues mod 28 (conv floors)")
def patch14_merge2():
    return Live(model=ConcatPairTokens(), args=(noise(1, 3, 56, 84),), spec=({0: BATCH, **sizes(28, 1400)},))


class Focal(nn.Module):
    """conv k4s4 patch then 2x2 merge with torch.cat of phase slices (Swin patch merging, no pad)"""

    def __init__(self):
        super().__init__()
        self.pe = nn.Conv2d(3, 4, 4, 4)
        self.r = nn.Linear(16, 8)

    def forward(self, x):
        t = self.pe(x).permute(0, 2, 3, 1)
        return self.r(torch.cat([t[:, 0::2, 0::2], t[:, 1::2, 0::2], t[:, 0::2, 1::2], t[:, 1::2, 1::2]], -1))


@case("hand", "image", "nested-floor")
def swin_patch_merge_nopad():
    return Live(model=Focal(), args=(noise(1, 3, 64, 96),), spec=({0: BATCH, **sizes(8, 2048)},))


class ConvTSkipOdd(nn.Module):
    """same-pad s2 conv (ceil) and convT k2s2 cropped add; even only through a 3-level ladder"""

    def __init__(self):
        super().__init__()
        self.d = nn.ModuleList([nn.Conv2d(3, 3, 3, 2, 1) for _ in range(3)])
        self.u = nn.ModuleList([nn.ConvTranspose2d(3, 3, 4, 2, 1) for _ in range(3)])

    def forward(self, x):
        f = [x]
        for d in self.d:
            f.append(F.relu(d(f[-1])))
        y = f.pop()
        for u in self.u:
            y = u(y) + f.pop()
        return y


@case("hand", "image", "unet", "nested-floor")
def resunet_ceil_ladder():
    return Live(model=ConvTSkipOdd(), args=(noise(1, 3, 64, 72),), spec=(sizes(2, 2160),))
