"""Conditions with powers that are not computed for many sizes: of fractions, and of large numbers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtdiag
from trtdiag.dims.joint_conditions import try_all
from trtdiag.dims.solver.constraint_losses import decisive_first, share_held
from trtdiag.symbolic import Range, ValueSet, free_symbols, parse_condition


class Powers(nn.Module):
    """A branch on a power."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, n = x.shape
        power = {"fraction": 1.5**n, "two sizes": rows**n, "large": 2**n, "half": rows * 0.5**n}[self.kind]
        return x + 1 if power < 3000 else x * 2


@pytest.mark.parametrize("text", ["(3/2)**n < 120", "2**n < 1000", "rows**n < 3000"])
def test_what_is_not_computed_counts_as_not_known(text: str) -> None:
    condition, box = parse_condition(text), {"n": Range(2, 5000), "rows": Range(1, 16)}
    assert share_held(condition, box) == 1.0
    assert try_all(condition, {name: ValueSet.full(box[name]) for name in free_symbols(condition)}) is None
    other = parse_condition("rows <= 6")
    assert set(decisive_first((condition, other), box)) == {condition, other}  # neither is lost


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("fraction", "two sizes")]


@pytest.mark.parametrize("kind", ["large", "half", *SLOW])
def test_a_model_with_a_power_is_analyzed(kind: str) -> None:
    dims = ({0: Dim("rows", min=1, max=16), 1: Dim("n", min=2, max=100)},)
    report = trtdiag.analyze((Powers(kind).eval(), (torch.randn(2, 5),), {}, dims))
    assert {"GRD301", "GRD303"} & {finding.rule for finding in report.findings}


@pytest.mark.slow  # six exports; what is caught there is shown above
def test_fix_dims_says_that_further_programs_were_not_looked_for() -> None:
    dims = ({1: Dim("n", min=2, max=100)},)
    fix = trtdiag.fix_dims((Powers("fraction").eval(), (torch.randn(2, 5),), {}, dims))
    assert fix.proven
    assert any(note.startswith("further programs were not looked for: a condition has a power") for note in fix.notes)
