"""The scripts that try ways of writing on a GPU: every way is right on the reference, and a difference is seen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "gpu"))

import group_norms
import infinities

from tests.harness.rows import each, thinned
from trtdiag.convert.ops import group_norm
from trtdiag.network import DType, run
from trtdiag.options import CompileOptions


@each("way", infinities.WAYS)
def test_infinities(way: str) -> None:
    network, given = infinities.network_of(way, DType.FLOAT32)
    (found,) = run(network, [given])
    assert infinities.differing(given, found, found) == []
    other = ~found if found.dtype is torch.bool else found + 1
    assert not torch.isfinite(found.float()).any() or infinities.differing(given, other, found)


# Quick: the ends.
@thinned("way", group_norms.WAYS, every=9)
def test_group_norms(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_norm, "_normalized", group_norm._normalized)  # the script puts its own there
    said = group_norms._said("norm", False, way, CompileOptions("8.6", "reference", force=True))
    assert said.startswith("['reference'] passed True"), said
