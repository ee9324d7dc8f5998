"""Image networks: skips, windows, padding."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.guards.asks import BATCH, noise, sizes
from tests.guards.networks import UNet
from tests.guards.registry import Live, case


@case("hand", "image", "unet")
def unet_pixelshuffle():
    return Live(model=UNet(3, up="shuffle"), args=(noise(1, 3, 64, 80),), spec=(sizes(8, 2160),))


@case("hand", "image", "unet")
def unet_interp():
    return Live(model=UNet(3, up="interp"), args=(noise(1, 3, 50, 70),), spec=(sizes(16, 4096),))


class SRShuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 12, 3, padding=1)

    def forward(self, x):
        return F.pixel_shuffle(self.c(x), 2)


@case("hand", "image")
def pixel_shuffle_head():
    return Live(model=SRShuffle(), args=(noise(1, 3, 20, 24),), spec=({0: BATCH, **sizes(2, 2160)},))


class WindowAttn(nn.Module):
    def __init__(self, ws=7, dim=8, pad=False):
        super().__init__()
        self.ws = ws
        self.e = nn.Conv2d(3, dim, 1)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.dim = dim
        self.pad = pad

    def forward(self, x):
        x = self.e(x).permute(0, 2, 3, 1)
        B, H, W, C = x.shape
        ws = self.ws
        if self.pad:
            ph = (ws - H % ws) % ws
            pw = (ws - W % ws) % ws
            x = F.pad(x, (0, 0, 0, pw, 0, ph))
        Hp, Wp = (x.shape[1], x.shape[2])
        w = x.view(B, Hp // ws, ws, Wp // ws, ws, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)
        q, k, v = self.qkv(w).chunk(3, -1)
        o = F.scaled_dot_product_attention(q, k, v)
        o = o.view(B, Hp // ws, Wp // ws, ws, ws, C).permute(0, 1, 3, 2, 4, 5).reshape(B, Hp, Wp, C)
        return o[:, :H, :W]


@case("hand", "image", "window")
def window_attn8_pad_aligned():
    return Live(model=WindowAttn(8, pad=True), args=(noise(1, 3, 48, 64),), spec=(sizes(8, 2160),))


class PadIf(nn.Module):
    """pads only when needed: the branch depends on the residue"""

    def __init__(self, m=32):
        super().__init__()
        self.m = m
        self.n = UNet(2)

    def forward(self, x):
        H, W = x.shape[-2:]
        ph, pw = (-H % self.m, -W % self.m)
        if ph or pw:
            x = F.pad(x, (0, pw, 0, ph))
        return self.n(x)[..., :H, :W]


@case("hand", "image", "pad-branch")
def pad_if_needed_aligned():
    return Live(model=PadIf(32), args=(noise(1, 3, 64, 96),), spec=(sizes(32, 2160),))


@case("hand", "image", "pad-branch")
def pad_if_needed_unaligned():
    return Live(model=PadIf(32), args=(noise(1, 3, 70, 90),), spec=(sizes(32, 2160),))


class INEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3),
            nn.InstanceNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, 2, 1),
            nn.InstanceNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, 2, 1),
        )

    def forward(self, x):
        return self.m(x)


@case("hand", "image", "instancenorm")
def instnorm_encoder():
    return Live(model=INEncoder(), args=(noise(1, 3, 136, 144),), spec=(sizes(135, 2160),))


class PosEmbedInterp(nn.Module):
    """patch conv + position table added after checking the grid"""

    def __init__(self):
        super().__init__()
        self.pe = nn.Conv2d(3, 8, 16, 16)
        self.pos = nn.Parameter(torch.randn(1, 16, 8))

    def forward(self, x):
        t = self.pe(x).flatten(2).transpose(1, 2)
        return t + self.pos


@case("hand", "image", "static")
def pos_table_fixed():
    return Live(model=PosEmbedInterp(), args=(noise(1, 3, 64, 64),), spec=(sizes(16, 1024),))


class CropSkip(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3)
        self.u = nn.ConvTranspose2d(4, 4, 2, 2)

    def forward(self, x):
        a = self.c(x)
        b = self.u(F.max_pool2d(self.c(x), 2))
        d = a.shape[2] - b.shape[2]
        e = a.shape[3] - b.shape[3]
        return torch.cat([a[:, :, d // 2 : d // 2 + b.shape[2], e // 2 : e // 2 + b.shape[3]], b], 1)


@case("hand", "image", "crop")
def unet_valid_crop():
    return Live(model=CropSkip(), args=(noise(1, 3, 34, 42),), spec=(sizes(8, 2160),))


class YoloNeck(nn.Module):
    def __init__(self):
        super().__init__()
        c = 4
        self.stem = nn.Conv2d(3, c, 3, 2, 1)
        self.c = nn.ModuleList([nn.Conv2d(c, c, 3, 2, 1) for _ in range(4)])
        self.l = nn.ModuleList([nn.Conv2d(2 * c, c, 1) for _ in range(2)])
        self.h = nn.Conv2d(c, 6, 1)
        self.dn = nn.ModuleList([nn.Conv2d(c, c, 3, 2, 1) for _ in range(2)])
        self.l2 = nn.ModuleList([nn.Conv2d(2 * c, c, 1) for _ in range(2)])

    def forward(self, x):
        x = self.stem(x)
        f = []
        for c in self.c:
            x = F.relu(c(x))
            f.append(x)
        p3, p4, p5 = (f[1], f[2], f[3])
        n4 = self.l[0](torch.cat([F.interpolate(p5, scale_factor=2), p4], 1))
        n3 = self.l[1](torch.cat([F.interpolate(n4, scale_factor=2), p3], 1))
        m4 = self.l2[0](torch.cat([self.dn[0](n3), n4], 1))
        m5 = self.l2[1](torch.cat([self.dn[1](m4), p5], 1))
        return torch.cat([self.h(t).flatten(2) for t in (n3, m4, m5)], 2)


@case("hand", "image", "yolo")
def yolo_pan_neck():
    return Live(model=YoloNeck(), args=(noise(1, 3, 96, 128),), spec=({0: BATCH, **sizes(32, 1280)},))


class UnfoldFold(nn.Module):
    def forward(self, x):
        return F.fold(F.unfold(x, 4, stride=4), x.shape[-2:], 4, stride=4) + x


@case("hand", "image")
def unfold_fold4():
    return Live(model=UnfoldFold(), args=(noise(1, 3, 32, 40),), spec=(sizes(4, 1024),))
