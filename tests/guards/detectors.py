"""Detectors as people write them: feature maps, anchors or grids, the best of all levels; small pictures asked."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.guards.asks import Span, noise
from tests.guards.registry import Live, case

CHANNELS = 8
ANCHORS = 3
BATCH = Span("b", 1, 8)


def pictures(height: int, width: int, low: int = 16, high: int = 640) -> dict[str, object]:
    """Two pictures, and the sizes that are asked for."""
    spec = ({0: BATCH, 2: Span("h", low, high), 3: Span("w", low, high)},)
    return {"args": (noise(2, 3, height, width),), "spec": spec}


class Backbone(nn.Module):
    """One map for each halving of the picture."""

    def __init__(self, halvings: int = 5) -> None:
        super().__init__()
        inputs = [3] + [CHANNELS] * (halvings - 1)
        self.stages = nn.ModuleList(nn.Conv2d(count, CHANNELS, 3, 2, 1) for count in inputs)

    def forward(self, x):
        maps = []
        for stage in self.stages:
            x = stage(x).relu()
            maps.append(x)
        return maps


class Pyramid(nn.Module):
    """Maps from the top down; the topmost is made smaller once more."""

    def __init__(self, top: nn.Module, levels: int = 3) -> None:
        super().__init__()
        self.beside = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 1) for _ in range(levels))
        self.top = top

    def forward(self, maps):
        above = self.beside[-1](maps[-1])
        found = [above, self.top(above)]
        for level in range(2, len(self.beside) + 1):
            beside = self.beside[-level](maps[-level])
            above = beside + F.interpolate(above, size=beside.shape[-2:])
            found.insert(0, above)
        return found


def anchors(features, stride):
    rows, columns = (torch.arange(size) * stride for size in features.shape[-2:])
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    centers = torch.stack([x, y, x, y], -1).reshape(-1, 1, 4)
    return (centers + torch.tensor([[-8, -8, 8, 8], [-16, -8, 16, 8], [-8, -16, 8, 16]])).reshape(-1, 4)


class AnchorDetector(nn.Module):
    def __init__(self, top: nn.Module, best: int = 100, classes: int = 4) -> None:
        super().__init__()
        self.backbone, self.pyramid = Backbone(), Pyramid(top)
        self.scores = nn.Conv2d(CHANNELS, ANCHORS * classes, 3, 1, 1)
        self.boxes = nn.Conv2d(CHANNELS, ANCHORS * 4, 3, 1, 1)
        self.best, self.classes = best, classes

    def forward(self, x):
        scores, boxes, around = [], [], []
        for level, features in enumerate(self.pyramid(self.backbone(x))):
            scores.append(self.scores(features).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.classes))
            boxes.append(self.boxes(features).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4))
            around.append(anchors(features, 8 << level))
        best, kind = torch.cat(scores, 1).sigmoid().max(-1)
        best, places = best.topk(self.best, 1)
        found = torch.cat(boxes, 1).gather(1, places[..., None].expand(-1, -1, 4))
        return found + torch.cat(around)[places], best, kind.gather(1, places)


@case("detectors", "detector", note="the topmost map has one element at the least sizes")
def anchors_pooled_top():
    return Live(model=AnchorDetector(nn.MaxPool2d(1, 2)), **pictures(256, 320))


@case("detectors", "detector", note="a 3x3 convolution without padding on top: empty at the least sizes")
def anchors_valid_top():
    return Live(model=AnchorDetector(nn.Conv2d(CHANNELS, CHANNELS, 3, 2), best=20), **pictures(256, 192, low=17))


class Centers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone(3)
        self.heat, self.size = nn.Conv2d(CHANNELS, 4, 3, 1, 1), nn.Conv2d(CHANNELS, 2, 3, 1, 1)

    def forward(self, x):
        features = self.backbone(x)[-1]
        heat = self.heat(features).sigmoid()
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
        places = heat.shape[-2] * heat.shape[-1]
        best, where = heat.flatten(1).topk(100)
        sizes = self.size(features).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 2)
        sizes = sizes.gather(1, (where % places)[..., None].expand(-1, -1, 2))
        return best, where // places, where % places % heat.shape[-1], sizes


@case("detectors", "detector", note="the best 100 of a map: a product of both sizes has an end below")
def centers_topk():
    return Live(model=Centers(), **pictures(128, 160, high=512))


class Grids(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.heads = nn.ModuleList(nn.Conv2d(CHANNELS, ANCHORS * 7, 1) for _ in range(3))

    def forward(self, x):
        found = []
        for features, head, stride in zip(self.backbone(x)[-3:], self.heads, (8, 16, 32), strict=True):
            rows, columns = features.shape[-2:]
            y = head(features).view(x.shape[0], ANCHORS, 7, rows, columns).permute(0, 1, 3, 4, 2).sigmoid()
            grid = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")[::-1], -1)
            y = torch.cat([(y[..., :2] * 2 - 0.5 + grid) * stride, y[..., 2:]], -1)
            found.append(y.reshape(x.shape[0], -1, 7))
        every = torch.cat(found, 1)
        places = every[..., 4].topk(100, 1).indices
        return every.gather(1, places[..., None].expand(-1, -1, 7))


@case("detectors", "detector", note="grids of three strides, the best 100 of all")
def grids_topk():
    return Live(model=Grids(), **pictures(256, 192))


class LearnedPlaces(nn.Module):
    """A row and a column of a learned table for each place, as DETR has them."""

    def __init__(self, places: int = 20) -> None:
        super().__init__()
        self.backbone = Backbone(4)
        self.rows, self.columns = (nn.Embedding(places, CHANNELS // 2) for _ in range(2))

    def forward(self, x):
        features = self.backbone(x)[-1]
        height, width = features.shape[-2:]
        rows, columns = self.rows(torch.arange(height)), self.columns(torch.arange(width))
        where = torch.cat([columns.expand(height, -1, -1), rows[:, None].expand(-1, width, -1)], -1)
        return features.permute(0, 2, 3, 1) + where


@case(
    "detectors",
    "detector",
    "table",
    note="tables of 20 rows and columns: no picture beyond 320, though no guard says so",
)
def learned_places():
    return Live(model=LearnedPlaces(), **pictures(256, 192))
