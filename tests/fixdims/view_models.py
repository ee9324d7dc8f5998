"""Small models whose ops tie, divide or round sizes, each with the dims that are asked for.

A case is a function of its inputs and, for each input, the example's shape and the ends of the asked dims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

Ends = tuple[int, int]


class Applied(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class AppliedToTwo(nn.Module):
    """The same with two inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.function(x, y)


class Weighted(nn.Module):
    """Layers one after the other."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


class Heads(nn.Module):
    """Attention with the projections of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.project(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)


class Recurrent(nn.Module):
    """A GRU over a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(4, 5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.cell(x)[0]
        return result


@dataclass(frozen=True)
class ViewCase:
    """One small model.

    Attributes:
        model: Makes it.
        shapes: The example's shape of each input.
        dims: For each input the asked dims with their ends; those of one name are one ``Dim``.
    """

    model: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    dims: tuple[Mapping[int, tuple[str, int, int]], ...]

    def args(self) -> tuple[Tensor, ...]:
        """The example."""
        return self.inputs(self.shapes)

    def inputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Tensor, ...]:
        """Numbers of these shapes, the same ones each time."""
        return tuple(torch.rand(shape, generator=torch.Generator().manual_seed(1)) for shape in shapes)

    def asked(self) -> tuple[dict[int, Any], ...]:
        """What is declared."""
        named = {name: Dim(name, min=low, max=high) for dims in self.dims for name, low, high in dims.values()}
        return tuple({dim: named[name] for dim, (name, *_) in dims.items()} for dims in self.dims)


def one(function: Callable[[Tensor], Any], shape: tuple[int, ...], **ends: tuple[int, int, int]) -> ViewCase:
    """A function of one tensor; ``name=(dim, low, high)``."""
    return of_model(lambda: Applied(function), shape, **ends)


def of_model(model: Callable[[], nn.Module], shape: tuple[int, ...], **ends: tuple[int, int, int]) -> ViewCase:
    """A module with one tensor; ``name=(dim, low, high)``."""
    return ViewCase(model, (shape,), ({dim: (name, low, high) for name, (dim, low, high) in ends.items()},))


def two(
    function: Callable[[Tensor, Tensor], Any],
    first: tuple[tuple[int, ...], Mapping[int, tuple[str, int, int]]],
    second: tuple[tuple[int, ...], Mapping[int, tuple[str, int, int]]],
) -> ViewCase:
    """A function of two tensors."""
    return ViewCase(lambda: AppliedToTwo(function), (first[0], second[0]), (first[1], second[1]))


def _windows(x: Tensor) -> Tensor:
    batch, height, width, channels = x.shape
    parts = x.view(batch, height // 4, 4, width // 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(-1, 16, channels).softmax(1)


def _windows_and_back(x: Tensor) -> Tensor:
    batch, height, width, channels = x.shape
    parts = _windows(x).view(batch, height // 4, width // 4, 4, 4, channels)
    return parts.permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, channels)


def _shuffled_channels(x: Tensor) -> Tensor:
    batch, channels, length = x.shape
    return x.view(batch, 2, channels // 2, length).transpose(1, 2).reshape(batch, channels, length)


def _patches(x: Tensor) -> Tensor:
    batch, channels, height, width = x.shape
    return x.reshape(batch, channels, height // 4, 4, width // 4, 4).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def _padded_to_eight(x: Tensor) -> Tensor:
    missing = (8 - x.shape[1] % 8) % 8
    return F.pad(x, (0, missing)).reshape(x.shape[0], -1, 8).mean(-1)


def _skip(x: Tensor) -> Tensor:
    small = F.avg_pool2d(x, 2)
    return torch.cat([F.interpolate(small, scale_factor=2.0, mode="nearest"), x], 1)


def _rotary(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


VIEW_CASES: dict[str, ViewCase] = {
    # views and reshapes with fixed factors
    "rows of four": one(lambda x: x.reshape(4, -1), (4, 8), b=(0, 1, 64), t=(1, 1, 64)),
    "view of four rows": one(lambda x: x.view(4, -1), (4, 8), b=(0, 1, 64), t=(1, 1, 64)),
    "columns of four": one(lambda x: x.reshape(-1, 4), (4, 8), b=(0, 1, 64), t=(1, 1, 64)),
    "columns of six": one(lambda x: x.reshape(-1, 6), (4, 9), b=(0, 1, 64), t=(1, 1, 64)),
    "columns of four, of three": one(lambda x: x.reshape(-1, 4), (2, 3, 8), b=(0, 1, 16), s=(1, 1, 16), t=(2, 1, 16)),
    "length by eight": one(lambda x: x.view(x.shape[0], -1, 8), (2, 32), b=(0, 1, 32), t=(1, 8, 64)),
    "eight by length": one(lambda x: x.view(x.shape[0], 8, -1), (2, 32), b=(0, 1, 32), t=(1, 8, 64)),
    "unflatten": one(lambda x: x.unflatten(1, (-1, 3)), (2, 12), b=(0, 1, 32), t=(1, 3, 60)),
    "flatten": one(lambda x: x.flatten() * 2, (2, 12), b=(0, 1, 32), t=(1, 1, 60)),
    "batch into rows and back": one(
        lambda x: x.reshape(-1, x.shape[-1]).reshape(x.shape[0], x.shape[1], -1), (2, 5, 6), b=(0, 1, 16), t=(1, 1, 16)
    ),
    "columns by the batch": one(lambda x: x.reshape(-1, x.shape[0]), (3, 7), b=(0, 1, 32), t=(1, 1, 32)),
    "half of the batch": one(lambda x: x.view(2, -1, x.shape[1]).sum(0), (4, 5), b=(0, 1, 32), t=(1, 1, 32)),
    "batch of one, by four": one(lambda x: x.reshape(x.shape[0], -1, 4), (1, 8), b=(0, 1, 16), t=(1, 1, 64)),
    "rows of four, batch of one": one(lambda x: x.reshape(4, -1), (1, 8), b=(0, 1, 32), t=(1, 1, 64)),
    "length of one": one(lambda x: x.reshape(x.shape[0], -1, 4), (4, 1, 8), b=(0, 1, 16), t=(1, 1, 64)),
    "squeezed where one": one(lambda x: x.squeeze(1) + 1, (4, 3, 8), b=(0, 1, 16), t=(1, 1, 32)),
    # cat and split
    "cat of halves": one(lambda x: torch.cat(x.chunk(2, 1), 0), (2, 12), b=(0, 1, 16), t=(1, 2, 64)),
    "sum of halves": one(lambda x: sum(x.chunk(2, 1)), (2, 12), b=(0, 1, 16), t=(1, 2, 64)),
    "sum of thirds": one(lambda x: sum(x.chunk(3, 1)), (2, 12), b=(0, 1, 16), t=(1, 3, 60)),
    "product of even and odd": one(lambda x: x[:, ::2] * x[:, 1::2], (2, 12), b=(0, 1, 16), t=(1, 2, 64)),
    "split in fours": one(lambda x: torch.stack(x.split(x.shape[1] // 4, 1)[:4]), (2, 16), b=(0, 1, 16), t=(1, 4, 64)),
    "half that is cut": one(lambda x: x[:, : x.shape[1] // 2] + x[:, x.shape[1] // 2 :], (2, 12), t=(1, 2, 64)),
    "rotary": one(_rotary, (2, 5, 8), b=(0, 1, 16), t=(1, 1, 16), d=(2, 2, 32)),
    "cat of two": two(
        lambda x, y: torch.cat([x, y], 1).reshape(x.shape[0], -1, 2),
        ((2, 6), {0: ("b", 1, 8), 1: ("s", 1, 16)}),
        ((2, 4), {0: ("b", 1, 8), 1: ("t", 1, 16)}),
    ),
    "cat, then as long": two(
        lambda x, y: torch.cat([x, x], 1) + y,
        ((2, 6), {0: ("b", 1, 8), 1: ("s", 1, 16)}),
        ((2, 12), {0: ("b", 1, 8), 1: ("t", 1, 32)}),
    ),
    # convolutions, pooling, interpolation
    "stride of two beside": of_model(
        lambda: Weighted(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(4, 3, 4, 2, 1)),
        (1, 3, 16, 16),
        b=(0, 1, 4),
        h=(2, 4, 40),
        w=(3, 4, 40),
    ),
    "u-net": one(_skip, (1, 3, 16, 16), b=(0, 1, 4), h=(2, 2, 40), w=(3, 2, 40)),
    "u-net of odd sizes": one(_skip, (2, 3, 16, 20), h=(2, 2, 40), w=(3, 2, 40)),
    "stride of four, added": one(lambda x: F.avg_pool1d(x, 4) + x[:, :, ::4], (2, 3, 16), b=(0, 1, 8), t=(2, 4, 64)),
    "pooled and resized": one(
        lambda x: F.interpolate(F.max_pool2d(x, 2), size=x.shape[-2:]) + x, (1, 3, 16, 16), h=(2, 2, 40), w=(3, 2, 40)
    ),
    "resized by 1.5": one(lambda x: F.interpolate(x, scale_factor=1.5), (1, 3, 16), b=(0, 1, 8), t=(2, 2, 64)),
    "adaptive pool": one(lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), (2, 3, 9, 9), h=(2, 1, 40), w=(3, 1, 40)),
    "adaptive pool of four": one(lambda x: F.adaptive_avg_pool1d(x, 4), (2, 3, 16), t=(2, 4, 64)),
    "pixel shuffle": one(lambda x: F.pixel_shuffle(x, 2), (1, 4, 5, 6), b=(0, 1, 4), h=(2, 1, 24), w=(3, 1, 24)),
    "pixel unshuffle": one(lambda x: F.pixel_unshuffle(x, 2), (1, 4, 6, 8), b=(0, 1, 4), h=(2, 2, 24), w=(3, 2, 24)),
    "unfold": one(lambda x: F.unfold(x, 3, stride=2), (1, 3, 9, 11), b=(0, 1, 4), h=(2, 3, 24), w=(3, 3, 24)),
    "unfold and fold": one(
        lambda x: F.fold(F.unfold(x, 2, stride=2), (x.shape[2], x.shape[3]), 2, stride=2),
        (1, 3, 8, 8),
        h=(2, 2, 24),
        w=(3, 2, 24),
    ),
    "frames": one(lambda x: x.unfold(1, 4, 2).mean(-1), (2, 16), b=(0, 1, 8), t=(1, 4, 64)),
    "frames side by side": one(
        lambda x: x.unfold(1, 4, 4).reshape(x.shape[0], -1) + x, (2, 16), b=(0, 1, 8), t=(1, 4, 64)
    ),
    "conv of one map": of_model(
        lambda: Weighted(nn.Conv2d(3, 4, 3, 2), nn.Conv2d(4, 4, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        (1, 3, 8, 8),
        b=(0, 1, 4),
        h=(2, 7, 40),
        w=(3, 7, 40),
    ),
    "grouped": of_model(
        lambda: Weighted(nn.Conv1d(4, 4, 3, padding=1, groups=2), nn.GroupNorm(2, 4)),
        (1, 4, 16),
        b=(0, 1, 8),
        t=(2, 1, 64),
    ),
    "instance norm": of_model(lambda: Weighted(nn.InstanceNorm1d(4)), (2, 4, 16), b=(0, 1, 8), t=(2, 2, 64)),
    "batch norm": of_model(lambda: Weighted(nn.BatchNorm1d(4)).eval(), (2, 4, 16), b=(0, 1, 8), t=(2, 1, 64)),
    # attention, windows
    "heads": of_model(lambda: Heads(8, 2), (2, 5, 8), b=(0, 1, 16), t=(1, 1, 32)),
    "heads, batch of one": of_model(lambda: Heads(8, 2), (1, 5, 8), b=(0, 1, 16), t=(1, 1, 32)),
    "heads, length of one": of_model(lambda: Heads(8, 2), (2, 1, 8), b=(0, 1, 16), t=(1, 1, 32)),
    "windows": one(_windows, (2, 8, 12, 3), b=(0, 1, 8), h=(1, 4, 32), w=(2, 4, 32)),
    "windows and back": one(_windows_and_back, (2, 8, 12, 3), b=(0, 1, 8), h=(1, 4, 32), w=(2, 4, 32)),
    "one window": one(_windows_and_back, (1, 4, 4, 3), b=(0, 1, 8), h=(1, 4, 32), w=(2, 4, 32)),
    "patches": one(_patches, (1, 3, 8, 12), b=(0, 1, 8), h=(2, 4, 32), w=(3, 4, 32)),
    "shuffled channels": one(_shuffled_channels, (2, 6, 5), b=(0, 1, 8), c=(1, 2, 32), t=(2, 1, 16)),
    "rolled": one(lambda x: x.roll((2, 3), (1, 2)) + x, (2, 8, 12), h=(1, 1, 32), w=(2, 1, 32)),
    "rolled by half": one(lambda x: x.roll(x.shape[1] // 2, 1), (2, 8), b=(0, 1, 8), t=(1, 1, 32)),
    "padded to eight": one(_padded_to_eight, (2, 16), b=(0, 1, 8), t=(1, 1, 64)),
    "padded as long": two(
        lambda x, y: F.pad(x, (0, y.shape[1] - x.shape[1])) + y,
        ((2, 6), {0: ("b", 1, 8), 1: ("s", 1, 16)}),
        ((2, 12), {0: ("b", 1, 8), 1: ("t", 1, 32)}),
    ),
    "reflected": one(lambda x: F.pad(x, (3, 3), mode="reflect"), (2, 3, 16), b=(0, 1, 8), t=(2, 1, 64)),
    # tied sizes
    "squares": one(lambda x: x + x.transpose(1, 2), (2, 6, 6), b=(0, 1, 8), h=(1, 1, 32), w=(2, 1, 32)),
    "gram": one(lambda x: x @ x.transpose(1, 2), (2, 6, 5), b=(0, 1, 8), h=(1, 1, 32), w=(2, 1, 32)),
    "matmul": two(
        lambda x, y: x @ y,
        ((3, 6), {0: ("m", 1, 4), 1: ("k", 1, 12)}),
        ((6, 4), {0: ("l", 1, 12), 1: ("n", 1, 5)}),
    ),
    "as many pixels": two(
        lambda x, y: x.flatten(1) + y,
        ((2, 6, 8), {1: ("h", 1, 6), 2: ("w", 1, 8)}),
        ((2, 48), {1: ("t", 1, 48)}),
    ),
    "broadcast to": two(
        lambda x, y: x[:, None] * y[None],
        ((6,), {0: ("s", 1, 32)}),
        ((6,), {0: ("t", 1, 32)}),
    ),
    "one more": two(
        lambda x, y: x + y[:, 1:],
        ((2, 6), {1: ("s", 1, 32)}),
        ((2, 7), {1: ("t", 1, 33)}),
    ),
    # branches on sizes
    "another path of one row": one(
        lambda x: x * 2 if x.shape[0] == 1 else x.cumsum(0), (4, 3), b=(0, 1, 16), t=(1, 1, 16)
    ),
    "another path above": one(lambda x: x[:, ::2] if x.shape[1] > 20 else x * 3, (2, 12), t=(1, 1, 64)),
    "another path of an area": one(
        lambda x: x.flatten(1) if x.shape[1] * x.shape[2] <= 144 else x.flatten(1) * 2,
        (2, 8, 12),
        h=(1, 1, 32),
        w=(2, 1, 32),
    ),
    "wide or high": one(
        lambda x: x if x.shape[1] <= x.shape[2] else x.transpose(1, 2), (2, 8, 12), h=(1, 1, 32), w=(2, 1, 32)
    ),
    "as many as given": one(
        lambda x: torch.ones(x.shape[0] * 2, 3).view(x.shape[0], 6) + x.sum(), (4, 3), b=(0, 1, 32)
    ),
    "repeat and interleave": one(
        lambda x: x.repeat_interleave(2, 0).view(x.shape[0], 2, -1), (4, 3), b=(0, 1, 32), t=(1, 1, 16)
    ),
    "mean of groups": one(lambda x: x.view(x.shape[0] // 2, 2, -1).mean(1), (4, 6), b=(0, 1, 32), t=(1, 1, 16)),
    "tiles": one(lambda x: x.tile(2, 2)[: x.shape[0] + 1], (4, 6), b=(0, 1, 32), t=(1, 1, 16)),
    "recurrent": of_model(Recurrent, (2, 6, 4), b=(0, 1, 8), t=(1, 1, 16)),
    "triangle": one(
        lambda x: x + torch.ones(x.shape[1], x.shape[1]).tril(), (2, 6, 6), b=(0, 1, 8), t=(1, 1, 32), s=(2, 1, 32)
    ),
    "topk": one(lambda x: x.topk(3, 1).values, (2, 6), b=(0, 1, 8), t=(1, 1, 32)),
    "topk of half": one(lambda x: x.topk(x.shape[1] // 2, 1).values, (2, 6), b=(0, 1, 8), t=(1, 2, 32)),
    "strided view": one(
        lambda x: x.as_strided((x.shape[0] // 2, 2, x.shape[1]), (2 * x.shape[1], x.shape[1], 1)),
        (4, 6),
        b=(0, 2, 32),
        t=(1, 1, 16),
    ),
    "einsum": one(
        lambda x: torch.einsum("bij,bjk->bik", x, x.transpose(1, 2)), (2, 6, 5), b=(0, 1, 8), i=(1, 1, 16), j=(2, 1, 16)
    ),
    "transposed, then rows": one(lambda x: x.transpose(0, 1).reshape(4, -1), (4, 8), b=(0, 1, 32), t=(1, 1, 32)),
    "two reshapes": one(lambda x: x.reshape(-1, 4).reshape(-1, 8).reshape(x.shape), (4, 8), b=(0, 1, 32), t=(1, 1, 32)),
    "rows of four and of six": one(
        lambda x: x.reshape(4, -1).sum(1) + x.reshape(-1, 6).sum(), (4, 9), b=(0, 1, 36), t=(1, 1, 36)
    ),
    "three-fold batch": one(lambda x: x.view(-1, 3, x.shape[1]).mean(1), (6, 4), b=(0, 1, 32), t=(1, 1, 16)),
    "by two and by three": one(
        lambda x: x.view(x.shape[0], -1, 2).sum(2).sum(1) + x.view(x.shape[0], 3, -1).sum((1, 2)), (2, 12), t=(1, 1, 64)
    ),
    "cube": one(lambda x: x.reshape(-1, 8), (2, 4, 6), d=(0, 1, 12), h=(1, 1, 12), w=(2, 1, 12)),
}
