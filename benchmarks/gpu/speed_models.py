"""Five common models in plain PyTorch, random weights from a fixed seed: what ``benchmarks/gpu/speed.py`` times.

Widths, depths and sizes are those of the originals (ResNet-50, ViT-B/16, BERT-base, GPT-2 small); the U-Net normalises
with InstanceNorm and goes up by pixel shuffle.  ``tiny`` makes each small enough for a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from speed_stays import (
    Detector,
    Rotary,
    TransUNet,
    ZooCase,
    plain_unet_case,
    published_case,
    torchvision_case,
    zoo_case,
)
from torch import Tensor, nn
from torch.export import Dim

SEED = 20240229


@dataclass(frozen=True)
class Case:
    """A model with its example.

    Attributes:
        module: In eval mode, float32, on the CPU.
        args: The example: the sizes that are timed.
        names: What ``forward`` calls them.
        ranges: For each argument, axis -> (name, least, greatest, multiple of): the sizes of the dynamic profile.
    """

    module: nn.Module
    args: tuple[Tensor, ...]
    names: tuple[str, ...]
    ranges: dict[str, dict[int, tuple[str, int, int, int]]]

    def dims(self) -> dict[str, dict[int, Any]]:
        """``dynamic_shapes`` for ``torch.export``."""
        made: dict[str, Any] = {}

        def dim(name: str, low: int, high: int, times: int) -> Any:
            if name not in made:
                plain = Dim(name if times == 1 else f"_{name}", min=low // times, max=high // times)
                made[name] = plain if times == 1 else times * plain
            return made[name]

        return {name: {axis: dim(*row) for axis, row in axes.items()} for name, axes in self.ranges.items()}

    def ends(self, name: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Least, usual and greatest shape of an argument."""
        usual = tuple(self.args[self.names.index(name)].shape)
        low, high = list(usual), list(usual)
        for axis, (_, least, greatest, _) in self.ranges.get(name, {}).items():
            low[axis], high[axis] = least, greatest
        return tuple(low), usual, tuple(high)


class Bottleneck(nn.Module):
    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        made = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(given, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, made, 1, bias=False), nn.BatchNorm2d(made)
        self.down = None
        if stride != 1 or given != made:
            self.down = nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y)).relu()
        y = self.bn3(self.conv3(y))
        return (y + (x if self.down is None else self.down(x))).relu()


class ResNet(nn.Module):
    def __init__(self, width: int, depths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        given = width
        for level, depth in enumerate(depths):
            for index in range(depth):
                blocks.append(Bottleneck(given, width << level, 2 if level and not index else 1))
                given = 4 * (width << level)
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(given, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(self.pool(self.stem(x)))
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        batch, steps, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, steps, 3, self.heads, self.size).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(y.transpose(1, 2).reshape(batch, steps, width))


class Block(nn.Module):
    """Normalises before each part, or after it as BERT does."""

    def __init__(self, width: int, heads: int, *, before: bool, approximate: str = "none", eps: float = 1e-5) -> None:
        super().__init__()
        self.before, self.approximate = before, approximate
        self.norm1, self.norm2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        if self.before:
            x = x + self.attention(self.norm1(x), mask, causal)
            return x + self._wide(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask, causal))
        return self.norm2(x + self._wide(x))

    def _wide(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x), approximate=self.approximate))


class ViT(nn.Module):
    def __init__(self, width: int, depth: int, heads: int, image: int, patch: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, before=True, eps=1e-6) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.first.expand(y.shape[0], -1, -1), y], 1) + self.places
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y)[:, 0])


class Bert(nn.Module):
    def __init__(self, width: int, depth: int, heads: int, words: int, steps: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(steps, width)
        self.kinds, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(Block(width, heads, before=False, eps=1e-12) for _ in range(depth))
        self.pool = nn.Linear(width, width)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        at = torch.arange(ids.shape[1], device=ids.device)
        y = self.norm(self.words(ids) + self.places(at) + self.kinds(torch.zeros_like(ids)))
        seen = mask.bool()[:, None, None, :]
        for block in self.blocks:
            y = block(y, seen)
        return y, self.pool(y[:, 0]).tanh()


class GPT(nn.Module):
    """Prefill: the logits of the token that comes next."""

    def __init__(self, width: int, depth: int, heads: int, words: int, steps: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(steps, width)
        self.blocks = nn.ModuleList(Block(width, heads, before=True, approximate="tanh") for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        y = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            y = block(y, causal=True)
        return self.head(self.norm(y)[:, -1])


class Twice(nn.Sequential):
    """Two convolutions, each normalised over its image."""

    def __init__(self, given: int, made: int, stride: int = 1) -> None:
        super().__init__(
            *(nn.Conv2d(given, made, 3, stride, 1), nn.InstanceNorm2d(made, affine=True), nn.LeakyReLU(0.1)),
            *(nn.Conv2d(made, made, 3, 1, 1), nn.InstanceNorm2d(made, affine=True), nn.LeakyReLU(0.1)),
        )


class UNet(nn.Module):
    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        self.enter = Twice(3, width)
        self.downs = nn.ModuleList(Twice(width << i, width << (i + 1), 2) for i in range(levels))
        self.ups = nn.ModuleList(nn.Conv2d(width << (i + 1), 4 * (width << i), 1) for i in range(levels))
        self.joins = nn.ModuleList(Twice(2 * (width << i), width << i) for i in range(levels))
        self.leave = nn.Conv2d(width, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept, y = [], self.enter(x)
        for down in self.downs:
            kept.append(y)
            y = down(y)
        for i in reversed(range(len(self.downs))):
            y = self.joins[i](torch.cat([F.pixel_shuffle(self.ups[i](y), 2), kept[i]], 1))
        return self.leave(y)


class Looking(nn.Module):
    """A layer of a decoder: queries look at each other, then at what was seen."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.block = Block(width, heads, before=False)
        self.heads, self.size = heads, width // heads
        self.ask, self.keys, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        batch, queries, width = x.shape
        q = self.ask(x).reshape(batch, queries, self.heads, self.size).transpose(1, 2)
        k, v = self.keys(seen).reshape(batch, seen.shape[1], 2, self.heads, self.size).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, queries, width)
        return self.block(self.norm(x + self.out(y)))


class Detr(nn.Module):
    """A detector as DETR is built: a ResNet-50, an encoder over its places, a decoder with queries."""

    def __init__(self, backbone: ResNet, given: int, width: int, depth: int, heads: int, queries: int) -> None:
        super().__init__()
        self.stem, self.pool, self.blocks = backbone.stem, backbone.pool, backbone.blocks
        self.enter = nn.Conv2d(given, width, 1)
        self.encoder = nn.ModuleList(Block(width, heads, before=False) for _ in range(depth))
        self.queries = nn.Parameter(torch.randn(1, queries, width))
        self.decoder = nn.ModuleList(Looking(width, heads) for _ in range(depth))
        self.classes, self.boxes = nn.Linear(width, 92), nn.Linear(width, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.enter(self.blocks(self.pool(self.stem(x)))).flatten(2).transpose(1, 2)
        for block in self.encoder:
            seen = block(seen)
        y = self.queries.expand(x.shape[0], -1, -1)
        for layer in self.decoder:
            y = layer(y, seen)
        return self.classes(y), self.boxes(y).sigmoid()


def _detr(tiny: bool) -> Case:
    backbone = ResNet(8, (1, 1, 1, 1), 10) if tiny else ResNet(64, (3, 4, 6, 3), 1000)
    module = Detr(
        backbone, 256 if tiny else 2048, 16 if tiny else 256, 2 if tiny else 6, 2 if tiny else 8, 10 if tiny else 100
    )
    x = torch.randn(*((2, 3, 64, 64) if tiny else (4, 3, 640, 640)))
    return Case(module, (x,), ("x",), {"x": {0: ("batch", 1, 8, 1)}})


def _resnet50(tiny: bool) -> Case:
    module = ResNet(8, (1, 1, 1, 1), 10) if tiny else ResNet(64, (3, 4, 6, 3), 1000)
    x = torch.randn(*((2, 3, 64, 64) if tiny else (8, 3, 224, 224)))
    return Case(module, (x,), ("x",), {"x": {0: ("batch", 1, 16, 1)}})


def _vit(tiny: bool) -> Case:
    module = ViT(16, 2, 2, 32, 8, 10) if tiny else ViT(768, 12, 12, 224, 16, 1000)
    x = torch.randn(*((2, 3, 32, 32) if tiny else (8, 3, 224, 224)))
    return Case(module, (x,), ("x",), {"x": {0: ("batch", 1, 16, 1)}})


def _bert(tiny: bool) -> Case:
    words, steps = (31, 32) if tiny else (30522, 512)
    module = Bert(16, 2, 2, words, steps) if tiny else Bert(768, 12, 12, words, steps)
    shape = (2, 12) if tiny else (8, 128)
    sizes = {0: ("batch", 1, 16, 1), 1: ("steps", 8, steps, 1)}
    mask = torch.ones(shape, dtype=torch.int64)
    mask[-1, shape[1] // 2 :] = 0
    return Case(module, (torch.randint(0, words, shape), mask), ("ids", "mask"), {"ids": sizes, "mask": sizes})


def _gpt(tiny: bool) -> Case:
    words, steps = (31, 32) if tiny else (50257, 1024)
    module = GPT(16, 2, 2, words, steps) if tiny else GPT(768, 12, 12, words, steps)
    ids = torch.randint(0, words, (1, 12) if tiny else (1, 512))
    return Case(module, (ids,), ("ids",), {"ids": {1: ("steps", 8, steps, 1)}})


def _unet(tiny: bool) -> Case:
    module = UNet(4, 2) if tiny else UNet(32, 4)
    times = 4 if tiny else 16
    x = torch.randn(*((2, 3, 16, 24) if tiny else (2, 3, 512, 512)))
    high = 64 if tiny else 1024
    sizes = {0: ("batch", 1, 4, 1), 2: ("high", times * 2, high, times), 3: ("wide", times * 2, high, times)}
    return Case(module, (x,), ("x",), {"x": sizes})


def _detector(tiny: bool) -> Case:
    backbone = ResNet(8, (1, 1, 1, 1), 10) if tiny else ResNet(64, (2, 2, 2, 2), 1000)
    module = Detector(backbone, 256 if tiny else 2048, 16 if tiny else 256)
    x = torch.randn(*((1, 3, 128, 160) if tiny else (4, 3, 640, 640)))
    sizes = {2: ("high", 64, 256 if tiny else 1024, 32), 3: ("wide", 64, 256 if tiny else 1024, 32)}
    return Case(module, (x,), ("x",), {"x": sizes})


def _rotary(tiny: bool) -> Case:
    module = Rotary(32, 2, 2) if tiny else Rotary(768, 6, 12)
    batch, steps, width = (2, 12, 32) if tiny else (4, 512, 768)
    places = torch.arange(steps).expand(batch, steps).contiguous()
    sizes = {1: ("steps", 8, 64 if tiny else 1024, 1)}
    return Case(module, (torch.randn(batch, steps, width), places), ("x", "places"), {"x": sizes, "places": sizes})


MAKERS: dict[str, Callable[[bool], Case]] = {
    "resnet50": _resnet50,
    "vit": _vit,
    "bert": _bert,
    "unet": _unet,
    "gpt": _gpt,
    "detr": _detr,
}
"""By name: ResNet-50 8x3x224x224, ViT-B/16 8x3x224x224, BERT-base 8x128, U-Net 2x3x512x512, GPT of 12 layers 1x512;
beside the five a detector like DETR 4x3x640x640."""


def _unet256(tiny: bool) -> Case:
    """The U-Net with a level less and small images, whose search ends in minutes."""
    module = UNet(4, 2) if tiny else UNet(32, 3)
    x = torch.randn(*((2, 3, 16, 24) if tiny else (2, 3, 256, 256)))
    sizes = {0: ("batch", 1, 4, 1), 2: ("high", 64, 512, 8), 3: ("wide", 64, 512, 8)} if not tiny else {}
    return Case(module, (x,), ("x",), {"x": sizes})


def _transunet(tiny: bool) -> Case:
    backbone = ResNet(8, (1, 1, 1), 10) if tiny else ResNet(64, (3, 4, 9), 1000)
    width, depth, heads = (16, 2, 2) if tiny else (768, 12, 12)
    encoder = nn.ModuleList(Block(width, heads, before=True, eps=1e-6) for _ in range(depth))
    given, widths = ([8, 32, 64, 128, 16], (16, 8, 8, 4)) if tiny else ([64, 256, 512, 1024, 768], (256, 128, 64, 16))
    x = torch.randn(*((2, 3, 64, 64) if tiny else (8, 3, 224, 224)))
    module = TransUNet(backbone, encoder, given, (x.shape[2] // 16) ** 2, widths)
    return Case(module, (x,), ("x",), {"x": {0: ("batch", 1, 16, 1)}})


OF_STAYS: dict[str, Callable[[bool], Case]] = {
    "detector": _detector,
    "rotary": _rotary,
    "unet256": _unet256,
    "transunet": _transunet,
}
"""For ``--variants auto``: those of ``speed_stays``, 4x3x640x640, 4x512x768 and 8x3x224x224; a smaller U-Net,
2x3x256x256."""


def case(name: str, tiny: bool = False) -> Case | ZooCase:
    """The model of a name, the same in every process."""
    torch.manual_seed(SEED)
    if name.startswith("zoo:"):
        return zoo_case(name.removeprefix("zoo:"))
    if name == "plain_unet":
        return plain_unet_case(tiny)
    if name.startswith("hf:"):
        return published_case(name.removeprefix("hf:"))
    if name.startswith("tv:"):
        return torchvision_case(name.removeprefix("tv:"))
    made = {**MAKERS, **OF_STAYS}[name](tiny)
    made.module.eval()
    return made
