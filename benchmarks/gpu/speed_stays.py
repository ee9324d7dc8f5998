"""Models of ``benchmarks/gpu/speed.py`` of which ops stay with PyTorch beside engines, and models of the zoo.

    python benchmarks/gpu/speed.py --models detector,rotary,zoo:demucs_like --variants ours,auto

``zoo:NAME`` is a model of ``tests/models``; those with keyword arguments are none of these.  ``zoo:NAME@8x512x512`` has
an example of these sizes, in the order in which the model's dims come; ``zoo:NAME@8`` a batch of 8.
``tv:NAME`` is a classifier of torchvision with images of 224 pixels, ``plain_unet`` a U-Net of dense convolutions.
``hf:NAME`` is one of ``PUBLISHED``: an architecture of the zoo as it was published, where the zoo has it narrow.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

SCORE = 0.5
"""Of about half of the places with random weights."""
MOST_KEPT = 256
OVERLAP = 0.5


class Detector(nn.Module):
    """A backbone, a head with boxes and a score for each place, and the suppression of boxes that overlap.

    Data decides how many boxes are above the score, so what is behind that stays with PyTorch.
    """

    def __init__(self, backbone: Any, given: int, width: int) -> None:
        super().__init__()
        self.stem, self.pool, self.blocks = backbone.stem, backbone.pool, backbone.blocks
        self.head = nn.Sequential(nn.Conv2d(given, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, 5, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.head(self.blocks(self.pool(self.stem(x)))).permute(0, 2, 3, 1).reshape(-1, 5).float()
        scores = y[:, 4].sigmoid()
        low, size = y[:, 0:2].sigmoid(), y[:, 2:4].sigmoid() / 4
        boxes = torch.cat([low - size, low + size], 1)
        kept = (scores > SCORE).nonzero()[:, 0]
        scores, boxes = scores[kept], boxes[kept]
        order = torch.argsort(scores, descending=True, stable=True)[:MOST_KEPT]
        scores, boxes = scores[order], boxes[order]
        corner, other = boxes[:, None, :2].maximum(boxes[None, :, :2]), boxes[:, None, 2:].minimum(boxes[None, :, 2:])
        shared = (other - corner).clamp(min=0).prod(2)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        overlap = (shared / (area[:, None] + area[None, :] - shared)).triu(1)
        decay = torch.exp(-((overlap.amax(0) / OVERLAP) ** 2))
        return boxes, scores * decay, torch.cumsum(scores * decay, 0) / torch.cumsum(torch.ones_like(scores), 0)


class Rotary(nn.Module):
    """Layers of attention whose angles are made in float64, as in some diffusion transformers: TensorRT has none."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.wide = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth)
        )

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        batch, steps, width = x.shape
        rates = 1e4 ** (-torch.arange(0, self.size, 2, dtype=torch.float64, device=x.device) / self.size)
        angles = places.double()[:, :, None] * rates
        cos, sin = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]
        for index, (qkv, out, wide) in enumerate(zip(self.qkv, self.out, self.wide, strict=True)):
            y = qkv(self.norms[2 * index](x)).reshape(batch, steps, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
            q, k, v = _turned(y[0], cos, sin), _turned(y[1], cos, sin), y[2]
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + out(y.transpose(1, 2).reshape(batch, steps, width))
            x = x + wide(self.norms[2 * index + 1](x))
        return x


class TransUNet(nn.Module):
    """TransUNet (Chen et al. 2021, arXiv:2102.04306): convolutions down to 1/16, a transformer there, convolutions up.

    Args:
        backbone: A ResNet of three levels.
        encoder: The transformer's blocks.
        given: Channels of the backbone's levels, then those of the transformer.
        places: How many places it has at the example's size.
        widths: Channels on the way up.
    """

    def __init__(
        self, backbone: Any, encoder: nn.ModuleList, given: list[int], places: int, widths: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.stem, self.pool = backbone.stem, backbone.pool
        levels: list[list[nn.Module]] = []
        for block in backbone.blocks:
            if not levels or block.conv2.stride != (1, 1):
                levels.append([])
            levels[-1].append(block)
        self.levels = nn.ModuleList(nn.Sequential(*blocks) for blocks in levels)
        *kept, deepest, width = given
        self.enter, self.places = nn.Conv2d(deepest, width, 1), nn.Parameter(torch.randn(1, places, width) * 0.02)
        self.encoder, self.norm = encoder, nn.LayerNorm(width, 1e-6)
        self.leave = _twice(width, 2 * widths[0])
        below = [2 * widths[0], *widths[:-1]]
        beside = [*reversed(kept), *[0] * (len(widths) - len(kept))]
        self.ups = nn.ModuleList(_twice(a + b, made) for a, b, made in zip(below, beside, widths, strict=True))
        self.head = nn.Conv2d(widths[-1], 9, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        kept = [y]
        y = self.pool(y)
        for level in self.levels:
            y = level(y)
            kept.append(y)
        high, wide = y.shape[2:]
        y = self.enter(y).flatten(2).transpose(1, 2) + self.places
        for block in self.encoder:
            y = block(y)
        y = self.leave(self.norm(y).transpose(1, 2).unflatten(2, (high, wide)))
        beside = [*reversed(kept[:-1]), *[None] * (len(self.ups) - len(kept) + 1)]
        for up, other in zip(self.ups, beside, strict=True):
            y = nn.functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
            y = up(y if other is None else torch.cat([y, other], 1))
        return self.head(y)


class PlainUNet(nn.Module):
    """The U-Net of Ronneberger et al. 2015 (arXiv:1505.04597) with padding, batch norms and upsampling by repeating."""

    def __init__(self, width: int = 64, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        above = list(pairwise(widths))
        self.enter, self.pool = _twice(3, width), nn.MaxPool2d(2)
        self.downs = nn.ModuleList(_twice(given, made) for given, made in above)
        self.ups = nn.ModuleList(nn.Sequential(nn.Upsample(scale_factor=2), *_once(big, small)) for small, big in above)
        self.joins = nn.ModuleList(_twice(2 * small, small) for small, _ in above)
        self.leave = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept, y = [], self.enter(x)
        for down in self.downs:
            kept.append(y)
            y = down(self.pool(y))
        for up, join, other in zip(reversed(self.ups), reversed(self.joins), reversed(kept), strict=True):
            y = join(torch.cat([other, up(y)], 1))
        return self.leave(y)


def _once(given: int, made: int) -> list[nn.Module]:
    return [nn.Conv2d(given, made, 3, padding=1, bias=False), nn.BatchNorm2d(made), nn.ReLU(inplace=True)]


def _twice(given: int, made: int) -> nn.Sequential:
    return nn.Sequential(*_once(given, made), *_once(made, made))


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


@dataclass(frozen=True)
class ZooCase:
    """A model of the zoo, as ``speed_models.Case``."""

    module: nn.Module
    args: tuple[Tensor, ...]
    dynamic_shapes: Any
    names: tuple[str, ...] = ()

    def dims(self) -> Any:
        """``dynamic_shapes`` for ``torch.export``."""
        return self.dynamic_shapes

    def ends(self, name: str) -> Any:
        """No profile for an ONNX file."""
        raise ValueError(f"{name}: models of the zoo are not written as ONNX files")


def zoo_case(name: str) -> ZooCase:
    """A model of the zoo by its name there; after ``@`` with other sizes, in the order in which its dims come."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.models.zoo import build

    name, _, sizes = name.partition("@")
    module, args, kwargs, dynamic_shapes = build(name)
    if kwargs:
        raise ValueError(f"{name} has keyword arguments")
    if sizes:
        args = _resized(args, _for_each(args, dynamic_shapes), [int(size) for size in sizes.split("x")])
    return ZooCase(module.eval(), args, dynamic_shapes)


def _for_each(args: tuple[Tensor, ...], dynamic_shapes: Any) -> Sequence[Any]:
    """The dims of each argument; those of the zoo's ``call`` are in a tuple, which is that of its ``*args``."""
    if len(dynamic_shapes) != len(args) or isinstance(dynamic_shapes[0], tuple):
        (dynamic_shapes,) = dynamic_shapes
    return dynamic_shapes


def _resized(args: tuple[Tensor, ...], dims: Sequence[Any], sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """The arguments with the first dims at these sizes: what they hold is repeated or cut off."""
    names = list(dict.fromkeys(dim.__name__ for its in dims for dim in (its or {}).values()))
    asked = dict(zip(names, sizes, strict=False))
    made = []
    for arg, its in zip(args, dims, strict=True):
        for axis, dim in (its or {}).items():
            size = asked.get(dim.__name__, arg.shape[axis])
            arg = torch.cat([arg] * -(-size // arg.shape[axis]), axis).narrow(axis, 0, size)
        made.append(arg.contiguous())
    return tuple(made)


def torchvision_case(name: str) -> ZooCase:
    """A classifier of torchvision by its name there; its batch is dynamic."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.models.asks import torchvision_model
    from tests.models.torchvision_ops import declare_missing_ops

    declare_missing_ops()
    return _used_to(torchvision_model(name)(weights=None), torch.randn(8, 3, 224, 224))


def _depth_anything_b() -> ZooCase:
    """Depth Anything V2 Base (Yang et al. 2024, arXiv:2406.09414): DINOv2-B and a DPT head, 8x3x518x518."""
    import transformers

    backbone = transformers.Dinov2Config(
        image_size=518,
        patch_size=14,
        out_features=["stage3", "stage6", "stage9", "stage12"],
        reshape_hidden_states=False,
    )
    config = transformers.DepthAnythingConfig(
        backbone_config=backbone,
        reassemble_hidden_size=768,
        neck_hidden_sizes=[96, 192, 384, 768],
        fusion_hidden_size=128,
    )
    model = transformers.DepthAnythingForDepthEstimation(config)
    return _batched(_Answer(model, "predicted_depth"), torch.randn(8, 3, 518, 518))


def _wav2vec2_b() -> ZooCase:
    """wav2vec 2.0 Base (Baevski et al. 2020, arXiv:2006.11477) with its letters, 8 times 4 s at 16 kHz."""
    import transformers

    model = transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config())
    return _batched(_Answer(model, "logits"), torch.randn(8, 64000))


PUBLISHED = {"depth_anything_b": _depth_anything_b, "wav2vec2_b": _wav2vec2_b}
"""By what ``hf:`` calls them: random weights, batches of 1 to 16."""


def published_case(name: str) -> ZooCase:
    """One of ``PUBLISHED``."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.models.torchvision_ops import declare_missing_ops

    declare_missing_ops()
    return PUBLISHED[name]()


class _Answer(nn.Module):
    """One tensor of what a model of transformers gives."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x: Tensor) -> Any:
        return getattr(self.model(x), self.name)


def _batched(module: nn.Module, x: Tensor) -> ZooCase:
    return ZooCase(module.eval(), (x,), ({0: torch.export.Dim("batch", min=1, max=16)},))


def plain_unet_case(tiny: bool) -> ZooCase:
    """The plain U-Net; its batch is dynamic."""
    if tiny:
        return _used_to(PlainUNet(4, 2), torch.randn(2, 3, 32, 48))
    return _used_to(PlainUNet(), torch.randn(8, 3, 256, 256))


def _used_to(module: nn.Module, x: Tensor) -> ZooCase:
    """A model whose norms have the statistics of its example."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.models.initialization import gather_statistics

    with torch.no_grad():
        gather_statistics(module.eval(), (x,), {})
    return ZooCase(module, (x,), ({0: torch.export.Dim("batch", min=1, max=256)},))
