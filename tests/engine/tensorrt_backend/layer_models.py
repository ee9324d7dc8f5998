"""Models whose engines show every way in which TensorRT fuses layers; small, and each with a dynamic batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

Asked = tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]


class Residual(nn.Module):
    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        out = width * stride
        self.one = nn.Sequential(nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())
        self.two = nn.Sequential(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.short = nn.Conv2d(width, out, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.two(self.one(x)) + self.short(x))


class Resnet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Residual(32, 1), Residual(32, 2), Residual(64, 1))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(101, 64), nn.Embedding(128, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu", dropout=0.0)
        self.layers = nn.ModuleList([layer, nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)])
        self.head = nn.Linear(64, 5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0]).log_softmax(-1)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(97, 32)
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        x = self.embed(ids)
        batch, steps, width = x.shape
        q, k, v = (y.view(batch, steps, 4, 8).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None, :])
        x = x + self.out(y.transpose(1, 2).reshape(batch, steps, width))
        return x @ self.embed.weight.T


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.InstanceNorm2d(16, affine=True), nn.LeakyReLU(0.1))
        self.middle = nn.Sequential(nn.Conv2d(16, 64, 3, 1, 1), nn.GroupNorm(4, 64), nn.SiLU(), nn.PixelShuffle(2))
        self.last = nn.Conv2d(19, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        up = F.interpolate(self.middle(self.down(x)), size=x.shape[2:], mode="bilinear", align_corners=False)
        return torch.sigmoid(self.last(torch.cat([up, x], 1)))


def layer_models() -> dict[str, Asked]:
    """Each model in eval mode with its example, its keyword arguments and its dims."""
    torch.manual_seed(1)
    batch, steps = Dim("batch", min=1, max=8), Dim("steps", min=2, max=64)
    ids = torch.randint(0, 97, (2, 33))
    return {
        "resnet": (Resnet().eval(), (torch.randn(3, 3, 65, 63),), {}, {"x": {0: batch}}),
        "encoder": (Encoder().eval(), (ids,), {}, {"ids": {0: batch, 1: steps}}),
        "decoder": (
            Decoder().eval(),
            (ids, torch.rand(2, 33) < 0.9),
            {},
            {"ids": {0: batch, 1: steps}, "keep": {0: batch, 1: steps}},
        ),
        "unet": (Unet().eval(), (torch.randn(2, 3, 48, 36),), {}, {"x": {0: batch}}),
    }
