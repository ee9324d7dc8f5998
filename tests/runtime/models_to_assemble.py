"""Small models, each with one thing that assembling must keep."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class TwoSegments(nn.Module):
    """An op left to PyTorch in the middle; its sizes come from the input, and one output is of sizes alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 7)
        self.second = nn.Linear(7, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        middle = torch.sin(torch.relu(self.first(x)))
        return self.second(middle).reshape(x.shape[0] * 5) + 1, torch.ones(x.shape[0] * 2 - 1)


class Nested(nn.Module):
    """Keyword arguments, nested inputs and outputs, an input that is an output, and a plain number."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, given: dict[str, Any], *, mask: Tensor, scale: float | None = None) -> dict[str, Any]:
        return {"sum": self.linear(given["x"]) + mask, "same": given["x"], "rest": [given["more"][0] * 2, 3, scale]}


class Counts(nn.Module):
    """Changes a buffer at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(5))
        self.linear = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(x.sum(0))
        return self.linear(x) + self.seen


class Passing(nn.Module):
    """Keeps a buffer that only PyTorch reads, not saved with the state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offset", torch.linspace(0, 1, 5), persistent=False)
        self.constant = torch.linspace(1, 2, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x + self.offset) * self.constant


class ChangesItsInput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        return x + 1


class Integers(nn.Module):
    """int64 and float64, which some targets lack."""

    def forward(self, i: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return i + 1, i * i - 2, d * 2


class SizeElsewhere(nn.Module):
    """The second branch takes sizes of the first input, and the third output is a size."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, int]:
        n = x.shape[0]
        return torch.relu(x) * n, y.reshape(-1).unsqueeze(0).expand(n - 2, -1) * 2, n * 2


class SizeAlone(nn.Module):
    """A segment whose only input is a size that may be negative, and one that is."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.sin(x).sum() + y * (x.shape[0] - 6)


class TwoDims(nn.Module):
    """Derived dims: one input is twice as long as the other."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x).reshape(-1) + y


class Shared(nn.Module):
    """A weight that both an engine and PyTorch read, under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5, bias=False)
        self.second = nn.Linear(5, 5, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second.weight * x.sum() + self.first(x).sum() + self.second(x).mean()


class ReshapedInTurn(nn.Module):
    """What an engine gives would be changed with the reshape, which copies a transposed tensor of two rows or more."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        turned = x.transpose(0, 1) + 1
        flat = turned.reshape(-1)
        flat.mul_(2)
        return turned + 0, flat + 0
