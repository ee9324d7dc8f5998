"""Models that choose elements by their values, small; each with inputs at which it finds none, all, and some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.compiling.programs import Asked

ROWS = 61


class Cloud(nn.Module):
    """A point cloud, cropped to a box and taken through a layer: as many points as lie inside."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 5)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor, int]:
        inside = (points[:, :3].abs() < 1).all(1)
        kept = points[inside]
        features = torch.relu(self.layer(kept)) + kept.mean(1, keepdim=True)
        return features, inside.nonzero().squeeze(1), kept.shape[0]


class Router(nn.Module):
    """A mixture of experts: each takes the rows that are meant for it, and puts its results to their places."""

    def __init__(self, experts: int = 3) -> None:
        super().__init__()
        self.gate = nn.Linear(4, experts)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 7), nn.GELU(), nn.Linear(7, 4)) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        weight, choice = self.gate(x).softmax(1).max(1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = choice == number
            out[mine] = expert(x[mine]) * weight[mine][:, None]
        return out


class Boxes(nn.Module):
    """Scores above a limit, best first, without those that overlap a better one (its amax wants at least one)."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        at = (x[:, 3] > 0).nonzero()[:, 0]
        score, order = x[at, 3].sort(descending=True)
        centre = x[at, 0][order]
        near = (centre[:, None] - centre[None]).abs() < 0.5
        kept = near.float().triu(1).amax(0) < 0.5
        return centre[kept], score[kept]


class Marked(nn.Module):
    """A first row in front of those that are chosen, and single elements by ``torch.where`` and ``masked_select``."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = x[x[:, 1] > 0] * 2
        i, j = torch.where(x > 1)
        return torch.cat([x[:1], rows]), x[i, j] + 1, torch.masked_select(x, x < -1).sum()


class Unique(nn.Module):
    """Sizes from an op that stays with PyTorch enter an engine, which chooses of them."""

    def forward(self, x: Tensor) -> Tensor:
        found = torch.unique((x.exp() * 2).floor())
        found = (found + 1).sqrt() * 3
        return found[found > 4].log() + 1


@dataclass(frozen=True)
class Counting:
    """A model, the shares of rows that it is run with, and what becomes of it: engines, and whether none is refused."""

    make: Callable[[], nn.Module]
    engines: int = 1
    takes_none: bool = True


MODELS = {
    "cloud": Counting(Cloud),
    "router": Counting(Router),
    "boxes": Counting(Boxes, takes_none=False),
    "marked": Counting(Marked),
    "unique": Counting(Unique, engines=2),
}


def model(name: str) -> nn.Module:
    torch.manual_seed(1)
    return MODELS[name].make().eval()


def asked(name: str) -> Asked:
    return model(name), (rows(17, "some"),), {}, {next(iter(_names(name))): {0: Dim("n", min=1, max=ROWS)}}


def rows(count: int, which: str, seed: int = 0) -> Tensor:
    """``count`` rows of which every model finds some, all or none."""
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return {"some": x, "all": x.abs() * 0.1 + 1e-3, "none": -x.abs() - 1}[which]


def _names(name: str) -> Any:
    import inspect

    return inspect.signature(type(model(name)).forward).parameters.keys() - {"self"}
