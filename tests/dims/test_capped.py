"""Greatest sizes in a declaration, before fix-dims exports with it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from tests.harness.rows import each
from trtdiag.dims.dynamic_shapes.code_text import MISSING_MAX
from trtdiag.dims.max_sizes import capped
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.errors import DimsError
from trtdiag.symbolic import Range

PLAN = Plan(
    (DimDef("t", Range(2, None)), DimDef("b", Range(None, 64))),
    {
        "x.shape[0]": Leaf(LeafKind.DIM, root="b"),
        "x.shape[1]": Leaf(LeafKind.DIM, root="t"),
        "y.shape[0]": Leaf(LeafKind.DIM, root="t", scale=4, offset=1),
        "y.shape[1]": Leaf(LeafKind.AUTO),
        "y.shape[2]": Leaf(LeafKind.STATIC, value=3),
    },
)
EXAMPLE = {"x.shape[0]": 2, "x.shape[1]": 5, "y.shape[0]": 21, "y.shape[1]": 7, "y.shape[2]": 3}


@each(
    "row",
    [
        (("t", 9), "t", Range(2, 9)),
        (("x.shape[1]", 9), "t", Range(2, 9)),
        (("y.shape[0]", 40), "t", Range(2, 9)),  # 4*9 + 1 is 37
        (("b", 3), "b", Range(None, 3)),
        (("y.shape[1]", 8), "y.shape[1]", Range(None, 8)),
    ],
)
def test_a_dim_has_an_end(row: tuple[tuple[str, int], str, Range]) -> None:
    asked, name, expected = row
    found = capped(PLAN, [asked], EXAMPLE)
    ranges = {each.name: each.range for each in found.defs} | {site: leaf.range for site, leaf in found.leaves.items()}
    assert ranges[name] == expected
    assert capped(PLAN, [], EXAMPLE) == PLAN


@each(
    "row",
    [
        (("k", 9), "unknown-dim", "its dynamic dims are t, b"),
        (("y.shape[2]", 9), "unknown-dim", "dynamic dims"),
        (("t", 1), "max-not-allowed", "t is declared as 2 or more"),
        (("y.shape[0]", 20), "max-not-allowed", "the example has"),
        (("y.shape[1]", 6), "max-not-allowed", "the example has y.shape[1] = 7"),
    ],
)
def test_what_is_refused(row: tuple[tuple[str, int], str, str]) -> None:
    asked, reference, because = row
    with pytest.raises(DimsError) as refused:
        capped(PLAN, [asked], EXAMPLE)
    assert (refused.value.reference, because in refused.value.because) == (reference, True)


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Added(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x, x[:1]]) @ y


@pytest.mark.slow  # quick: fix-dims declares it
def test_the_analysis_declares_it_too() -> None:
    """``--max`` is part of what is asked: the code to copy has it, and no dim is told to need a maximum."""
    asked: dict[str, Any] = {"x": {0: Dim("batch"), 1: Dim("left")}, "y": {0: Dim("right")}}
    exported = trtdiag.analyze(
        (Added(), (torch.randn(3, 5), torch.randn(5, 7)), {}, asked), max_sizes={"batch": 8, "left": 11, "right": 11}
    )
    declaration = exported.analysis.dims.declaration
    assert declaration is not None
    assert "max=8" in declaration.code
    assert "max=11" in declaration.code
    assert MISSING_MAX not in declaration.code


def test_fix_dims_declares_it() -> None:
    asked: dict[str, Any] = {"x": {0: Dim("batch"), 1: Dim.AUTO}}
    fix = trtdiag.fix_dims(
        Doubled(), (torch.randn(3, 5),), dynamic_shapes=asked, max_sizes={"batch": 8, "x.shape[1]": 6}
    )
    assert "max=8" in fix.code
    assert "max=6" in fix.code
    assert [change.lost for change in fix.changes if change.name == "batch"] == ["batch >= 9"]
