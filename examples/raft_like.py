"""An optical-flow encoder in the manner of RAFT, asked for at every size of a video frame.

The features have (h - 1)//4 - 1 rows: two convolutions of stride 2 and one without padding.  The correlation
pyramid pools pairs of rows, so that number must be even.  Of the heights 135..2160 that ``build`` asks for, only
those with h % 8 in (0, 5, 6, 7) give an even number: h = 136 works, h = 137 does not.  torch.export refuses the
ranges.

    trtdiag analyze examples.raft_like:build
    trtdiag fix-dims examples.raft_like:build --apply -o raft_fixed.pt2
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F


class Encoder(nn.Sequential):
    """Image (B, 3, H, W) to features (B, C, (H - 1)//4 - 1, (W - 1)//4 - 1)."""

    def __init__(self, channels: int) -> None:
        super().__init__(
            nn.Conv2d(3, channels, 7, stride=2, padding=3),
            nn.InstanceNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1),
            nn.InstanceNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3),
        )


class Correlation(nn.Module):
    """All-pairs correlation of two feature maps, and the same pooled by 2."""

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        batch, channels, rows, columns = first.shape
        if rows % 2 or columns % 2:
            raise ValueError(f"the pyramid pools pairs of rows and columns, features are {rows}x{columns}")
        pairs = first.flatten(2).transpose(1, 2) @ second.flatten(2)  # (B, h*w, h*w)
        volume = (pairs / channels**0.5).view(batch * rows * columns, rows, columns)
        return volume, F.avg_pool2d(volume, 2)


class RaftLike(nn.Module):
    """Two frames to one flow estimate at a quarter of the resolution."""

    def __init__(self, channels: int = 16, radius: int = 2) -> None:
        super().__init__()
        self.encoder = Encoder(channels)
        self.correlation = Correlation()
        self.radius = radius
        taps = (2 * radius + 1) ** 2
        self.flow = nn.Sequential(nn.Conv2d(2 * taps, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 2, 3, padding=1))

    def lookup(self, volume: Tensor, rows: int, columns: int, scale: float) -> Tensor:
        """Correlations around each pixel: (B*h*w, h', w') to (B, taps, h, w)."""
        offset = torch.arange(-self.radius, self.radius + 1, dtype=torch.float32)
        y = torch.arange(rows).view(-1, 1, 1, 1) * scale + offset.view(1, 1, -1, 1)
        x = torch.arange(columns).view(1, -1, 1, 1) * scale + offset.view(1, 1, 1, -1)
        grid = torch.stack(torch.broadcast_tensors(x, y), -1).flatten(0, 1)  # (h*w, k, k, 2)
        size = torch.tensor([volume.shape[2], volume.shape[1]], dtype=torch.float32)
        batch = volume.shape[0] // (rows * columns)
        grid = (2 * grid / (size - 1) - 1).repeat(batch, 1, 1, 1)
        taps = F.grid_sample(volume.unsqueeze(1), grid, align_corners=True)
        return taps.view(batch, rows, columns, -1).permute(0, 3, 1, 2)

    def forward(self, image1: Tensor, image2: Tensor) -> Tensor:
        first, second = self.encoder(image1), self.encoder(image2)
        rows, columns = first.shape[2:]
        full, half = self.correlation(first, second)
        taps = torch.cat([self.lookup(full, rows, columns, 1.0), self.lookup(half, rows, columns, 0.5)], 1)
        return self.flow(taps)


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """The model, its example inputs, and the ranges that a user would first try."""
    frame = {2: Dim("h", min=135, max=2160), 3: Dim("w", min=135, max=3840)}
    example = torch.rand(1, 3, 136, 144)
    return RaftLike().eval(), (example, example.clone()), {}, {"image1": frame, "image2": frame}
