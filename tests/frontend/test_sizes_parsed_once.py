"""A text of a size is parsed once of a file, and the program is the same as torch's own reader gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from torch import nn
from torch.export import Dim

from trtdiag.frontend.archive import deserializer_patches
from trtdiag.frontend.archive.deserializer_patches import parse_srepr
from trtdiag.frontend.archive.read import read_archive


class Chain(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.relu(x.flatten(1).unflatten(1, (-1, 3)) + 1).transpose(1, 2).contiguous().transpose(1, 2)
        return x[mask]  # a size from data


def shapes(program: Any) -> list[str]:
    values = [node.meta.get("val") for node in program.graph.nodes]
    return [f"{value.shape} {value.stride()}" if isinstance(value, torch.Tensor) else str(value) for value in values]


@pytest.mark.slow  # quick: the sizes of a file, in test_archive_expressions.py
def test_equal_sizes_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dims = {0: Dim("batch", min=1, max=7), 1: Dim("length", min=2, max=513)}
    args = (torch.randn(2, 5, 3), torch.ones(2, 5, dtype=torch.bool))
    program = torch.export.export(Chain(), args, dynamic_shapes=(dims, dims))
    torch.export.save(program, tmp_path / "chain.pt2")
    usual = torch.export.load(tmp_path / "chain.pt2")

    parsed: list[str] = []
    sympify = sympy.sympify

    def counted(text: Any, *args: Any, **more: Any) -> Any:
        if isinstance(text, str):
            parsed.append(text)
        return sympify(text, *args, **more)

    def computed(text: str, functions: Any) -> Any:
        parsed.append(text)
        return parse_srepr(text, functions)

    monkeypatch.setattr(sympy, "sympify", counted)
    monkeypatch.setattr(deserializer_patches, "parse_srepr", computed)
    read = read_archive(tmp_path / "chain.pt2").exported
    # Once with its example and once without, where the file has both.
    assert 3 <= len(parsed) <= 2 * len(set(parsed))
    assert shapes(read) == shapes(usual)
    assert read.range_constraints == usual.range_constraints
    assert str(read.graph) == str(usual.graph)
    before = len(parsed)
    torch.export.load(tmp_path / "chain.pt2")  # torch's own reader is as it was
    assert len(parsed) - before > 2 * before
