"""Conditions that compare declared sizes with numbers from data."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag


class FirstRows(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        count = n.item()
        torch._check(count >= 1)
        torch._check(count <= x.shape[0])
        return x[:count] * 2


def test_they_refuse_no_declared_size() -> None:
    dims = {"x": {0: Dim("rows", min=2, max=64)}, "n": None}
    program = export(FirstRows(), (torch.randn(7, 3), torch.tensor(4)), dynamic_shapes=dims)
    report = trtdiag.analyze(program)
    assert "GRD301" in {finding.rule for finding in report.analysis.findings}, "it is told all the same"
    (row,) = [row for row in report.analysis.dims.rows if row.site == "x.shape[0]"]
    assert (row.state, str(row.range), row.allowed) == ("ok", "2..64", "2..64")
    assert report.analysis.dims.declaration is None, "nothing is to be declared otherwise"
