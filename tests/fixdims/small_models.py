"""Small models, each with one way in which sizes go wrong at an export."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Unshuffle(nn.Module):
    """Needs multiples of 8 in height and width."""

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_unshuffle(x, 8)


class ComparedWithEight(nn.Module):
    """Takes another path for a batch of 8."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] == 8 else x + 1


class EvenRows(nn.Module):
    """Takes lengths whose quarter, rounded, is even: half of the residues modulo 8."""

    def forward(self, x: Tensor) -> Tensor:
        if ((x.shape[1] - 1) // 4 + 1) % 2:
            raise ValueError("an even number of rows is needed")
        return x.relu()


class TwoMoreThanFours(nn.Module):
    """Takes 1, and 2, 6, 10, ...: at 2 there is no four."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 1 and x.shape[0] % 4 != 2:
            raise ValueError("two more than a multiple of four is needed")
        return x.relu()


class OneRowApart(nn.Module):
    """Takes another path for a single row."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] == 1 else x.cumsum(0)


class RowsOfEight(nn.Module):
    """Rows of 4, then of 8: an input with 8 columns is laid out in another way than wider ones."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, 4).reshape(-1, 8).reshape(x.shape)


class PowerOfTwo(nn.Module):
    """Compares bits of a size: a guard that cannot be read."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.shape[0] & (x.shape[0] - 1) == 0 else x + 1


class Cached(nn.Module):
    """Attention over past and present keys with a mask over both."""

    def forward(self, query: Tensor, past: Tensor, mask: Tensor) -> Tensor:
        keys = torch.cat([past, query], 2)
        return F.scaled_dot_product_attention(query, keys, keys, mask)


class FixedTable(nn.Module):
    """Adds a table of 128 rows: no other length works."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 128, 8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


class PositionTable(nn.Module):
    """Patches of 14 with a position table of 16 x 16 that is resized for other numbers of patches."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 4, 16, 16))
        self.patches = nn.Conv2d(3, 4, 14, 14)

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = x.shape[2] // 14, x.shape[3] // 14
        features = self.patches(x)
        if rows == 16 and columns == 16:
            return features + self.table
        return features + F.interpolate(self.table, size=(rows, columns), mode="bilinear")


class Sum(nn.Module):
    """Adds two things of one size."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Concatenated(nn.Module):
    """The third input is as long as the first two together."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.cat([a, b], 1) + c


class AddUpTo(nn.Module):
    """Two sizes that make 12 together."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        torch._check(x.shape[0] + y.shape[0] == 12)
        return x.sum() + y.sum()


class Ordered(nn.Module):
    """Takes one path where the first is no longer than the second."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.sum() + y.sum() if x.shape[0] <= y.shape[0] else x.sum()


class EverySecond(nn.Module):
    """The second input is half as long, rounded up."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x[:, ::2] + y


class PaddedWindows(nn.Module):
    """Pads to windows of 8 itself: every length works, and torch cannot see it."""

    def forward(self, x: Tensor) -> Tensor:
        missing = -x.shape[1] % 8
        return F.pad(x, (0, missing)).view(x.shape[0], (x.shape[1] + missing) // 8, 8).sum(-1)


class WrongProduct(nn.Module):
    """Fails at any size."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.ones(5, 3)


class CountedBranch(nn.Module):
    """Branches on how many values are positive."""

    def forward(self, x: Tensor) -> Tensor:
        positive = x[x > 0]
        if positive.shape[0] > 3:
            return positive.sum()
        return positive.prod()
