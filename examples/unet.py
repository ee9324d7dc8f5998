"""A small U-Net: one level goes up by pixel shuffle, the other by interpolation to the skip's size.

The pixel shuffle doubles what the pooling halved, so height and width must be even.  ``build`` says so, ``naive``
does not and torch.export refuses it.  torch before 2.13 also asks that both poolings divide what they are given: there
the program of ``build`` takes multiples of 4 alone, and the analysis says so.

    trtdiag analyze examples.unet:build
    trtdiag analyze examples.unet:naive
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F


class UNet(nn.Module):
    """Image (1, 3, H, W) to a mask (1, 1, H, W)."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.middle = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.bottom = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1)
        self.join_middle = nn.Conv2d(4 * channels, 4 * channels, 3, padding=1)
        self.join_top = nn.Conv2d(2 * channels, channels, 3, padding=1)
        self.leave = nn.Conv2d(channels, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        top = self.enter(x).relu()
        middle = self.middle(F.max_pool2d(top, 2)).relu()
        bottom = self.bottom(F.max_pool2d(middle, 2)).relu()
        up = F.interpolate(bottom, size=middle.shape[2:], mode="bilinear", align_corners=False)
        joined = self.join_middle(torch.cat([up, middle], 1)).relu()
        up = F.pixel_shuffle(joined, 2)
        return self.leave(self.join_top(torch.cat([up, top], 1)).relu()).sigmoid()


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """The model, its example inputs, and the even sizes of 200..400."""
    dims = {2: 2 * Dim("_h", min=100, max=200), 3: 2 * Dim("_w", min=100, max=200)}
    return UNet().eval(), (torch.rand(1, 3, 224, 256),), {}, {"x": dims}


def naive() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """The same, asked for at every size of 200..400."""
    model, args, kwargs, _ = build()
    dims = {2: Dim("h", min=200, max=400), 3: Dim("w", min=200, max=400)}
    return model, args, kwargs, {"x": dims}
