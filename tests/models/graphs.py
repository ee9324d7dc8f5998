"""Graphs and point clouds."""

from __future__ import annotations

import functools

import torch
from torch import nn
from torch.export import Dim

from tests.models.asks import BATCH, single
from tests.models.registry import zoo


def build_graph_network(layer):
    import torch_geometric.nn

    make = getattr(torch_geometric.nn, layer)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = make(16, 32), make(32, 7)

        def forward(self, x, e):
            return self.b(self.a(x, e).relu(), e).log_softmax(-1)

    e = torch.randint(0, 30, (2, 90))
    return (
        Net().eval(),
        (torch.randn(30, 16), e),
        {},
        ({0: Dim("nodes", min=2, max=10000)}, {1: Dim("edges", min=2, max=100000)}),
    )


zoo("gnn", "pyg_gcn")(functools.partial(build_graph_network, "GCNConv"))
zoo("gnn", "pyg_gat")(functools.partial(build_graph_network, "GATConv"))


def _pointwise(i, o):
    return nn.Sequential(nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU())


@zoo("gnn")
def pointnet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.t, self.tf = (
                nn.Sequential(_pointwise(3, 32), _pointwise(32, 128)),
                nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 9)),
            )
            self.f, self.o = nn.Sequential(_pointwise(3, 64), _pointwise(64, 256)), nn.Linear(256, 40)

        def forward(self, x):
            t = self.tf(self.t(x).max(-1)[0]).view(-1, 3, 3) + torch.eye(3)
            return self.o(self.f(torch.bmm(x.transpose(1, 2), t).transpose(1, 2)).amax(-1)).log_softmax(-1)

    return single(Net(), torch.randn(2, 3, 500), {0: BATCH, 2: Dim("points", min=2, max=4096)})


@zoo("gnn")
def pointpillars():
    """Pillar features scattered to a bird's-eye-view canvas, then a 2D backbone."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.b = nn.Linear(9, 32), nn.BatchNorm1d(32)
            self.c = nn.Sequential(
                nn.Conv2d(32, 32, 3, 2, 1),
                nn.BatchNorm2d(32),
                nn.ReLU(),
                nn.ConvTranspose2d(32, 32, 2, 2),
                nn.Conv2d(32, 14, 1),
            )

        def forward(self, f, xy):
            h = self.b(self.p(f).transpose(1, 2)).relu().amax(-1)
            c = f.new_zeros(32, 64 * 64)
            c[:, xy[:, 0] * 64 + xy[:, 1]] = h.t()
            return self.c(c.view(1, 32, 64, 64))

    n = Dim("pillars", min=2, max=10000)
    return Net().eval(), (torch.randn(50, 20, 9), torch.randint(0, 64, (50, 2))), {}, ({0: n}, {0: n})
