"""Tabular data and recommendation."""

from __future__ import annotations

import torch
from torch import nn

from tests.models.asks import BATCH, single
from tests.models.registry import zoo


@zoo("tabular")
def tabular_mlp():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.ModuleList(nn.Embedding(n, 8) for n in (10, 20, 50, 100))
            self.b = nn.BatchNorm1d(16)
            self.f = nn.Sequential(
                nn.Linear(48, 64),
                nn.ReLU(),
                nn.BatchNorm1d(64),
                nn.Dropout(),
                nn.Linear(64, 32),
                nn.SELU(),
                nn.Linear(32, 1),
            )

        def forward(self, c, x):
            return self.f(torch.cat([e(c[:, k]) for k, e in enumerate(self.e)] + [self.b(x)], 1)).sigmoid()

    return Net().eval(), (torch.randint(0, 10, (4, 4)), torch.randn(4, 16)), {}, ({0: BATCH}, {0: BATCH})


@zoo("tabular")
def deepfm():
    class Net(nn.Module):
        def __init__(self, f=20, d=8):
            super().__init__()
            self.v, self.w, self.f = (
                nn.Embedding(2000, d),
                nn.Embedding(2000, 1),
                nn.Sequential(nn.Linear(f * d, 64), nn.ReLU(), nn.Linear(64, 1)),
            )
            self.register_buffer("off", torch.arange(f) * 100)

        def forward(self, i):
            i = i + self.off
            v = self.v(i)
            fm = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1, keepdim=True)
            return torch.sigmoid(fm + self.w(i).sum(1) + self.f(v.flatten(1)))

    return single(Net(), torch.randint(0, 100, (4, 20)), {0: BATCH})
