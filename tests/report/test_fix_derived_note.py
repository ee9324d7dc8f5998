"""The note on derived Dims says what torch does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim, export, load, save


@pytest.mark.slow  # quick: tests/lower/test_nested_graphs.py has such a program
def test_a_loaded_program_with_a_derived_dim_cannot_be_decomposed_and_the_way_round_works(tmp_path: Path) -> None:
    spec = {"input": {0: 2 * Dim("_n", min=2, max=8)}}
    program = export(nn.ReLU(), (torch.randn(6, 5),), dynamic_shapes=spec)
    program.run_decompositions({})  # before saving it works
    save(program, tmp_path / "derived.pt2")
    loaded = load(tmp_path / "derived.pt2")
    with pytest.raises(AssertionError, match=r"expected sympy\.Symbol"):
        loaded.run_decompositions({})
    again = export(loaded.module(), (torch.randn(6, 5),), dynamic_shapes=spec).run_decompositions({})
    assert again.module()(torch.randn(16, 5)).shape == (16, 5)
