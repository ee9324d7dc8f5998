"""``analyze`` and ``fix_dims`` declare the same sizes; what only an export shows, ``analyze`` does not call proven.

Of each live case in test_live_cases.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtdiag
from tests.guards import cases
from tests.guards.one_answer import sizes


class Fours(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1).reshape(x.shape[0], -1, 4).sum(-1)


def fours() -> tuple[Any, ...]:
    dims = {1: Dim("h", min=2, max=61), 2: Dim("w", min=2, max=64)}
    return Fours(), (torch.randn(2, 7, 12),), {}, {"x": dims}


@pytest.mark.slow  # the quick run has a sum, below
def test_a_product_of_two_sizes_gets_the_fix_that_fix_dims_gives() -> None:
    report = trtdiag.analyze(fours())
    (finding,) = [finding for finding in report.findings if finding.rule == "GRD301"]
    assert finding.fix is not None
    assert finding.fix.code + "\n" == trtdiag.fix_dims(fours()).code
    assert "w = 4 * _w" in finding.fix.code
    assert finding.fix.title == "declare x.shape[2] as 4*_w (w % 4 == 0: keeps 16 of 63 values)"
    (row,) = [row for row in report.analysis.dims.rows if row.suggested]
    assert (row.site, row.suggested) == ("x.shape[2]", "4*_w")


def test_sizes_that_the_program_refuses_are_not_proposed() -> None:
    report = trtdiag.analyze(cases.build("iss172561_sum_const"))
    declaration = report.analysis.dims.declaration
    assert declaration is not None
    assert declaration.refused.startswith("x_dim = 1, y_dim = 31: ")
    assert not declaration.proof.proven
    assert not any(suggestion.proof.proven for suggestion in report.analysis.dims.suggestions)
    assert not any("dynamic_shapes = " in f.fix.code for f in report.findings if f.fix is not None)


@pytest.mark.slow  # the quick run has a file in test_fix_dims_sources.py, and live programs above
def test_a_saved_program_gets_the_same_answer_from_both(tmp_path: Path) -> None:
    module, args, _, dynamic_shapes = fours()
    path = tmp_path / "fours.pt2"
    torch.export.save(torch.export.export(module, args, dynamic_shapes=dynamic_shapes), path)
    report, fix = trtdiag.analyze(path), trtdiag.fix_dims(str(path))
    declaration = report.analysis.dims.declaration
    assert declaration is not None
    assert sizes(declaration.plan) == sizes(fix.plan)
    assert declaration.proof.proven
    assert declaration.points > 1
    assert not declaration.refused
