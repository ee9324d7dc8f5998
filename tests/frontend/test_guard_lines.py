"""The line that a guard is blamed on: one of the model, not of what called the export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

from trtdiag.frontend.capture import capture

MODEL = """
import torch


class Backbone(torch.nn.Module):
    def forward(self, x):
        return x.mean(1) if x.shape[1] > 4 else x.sum(1)
"""


@pytest.mark.parametrize(
    ("size", "refused"), [(2 * Dim("half", min=2, max=8), False), (Dim("size", min=2, max=16), True)], ids=str
)
def test_a_model_of_a_library_is_blamed_on_its_own_line(
    size: Any, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "backbones_of_a_library.py").write_text(MODEL)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "backbones_of_a_library", raising=False)
    import backbones_of_a_library  # type: ignore[import-not-found]

    program = capture((backbones_of_a_library.Backbone(), (torch.randn(3, 10),), {}, {"x": {1: size}}))

    assert (program.failure is not None) == refused
    # The other guards here are of no line: torch makes them of the declared dims when the model was traced.
    stacks = [guard.stack for guard in program.guards if "4" in str(guard.condition) and guard.stack.frames]
    assert stacks
    for stack in stacks:
        assert stack.user is None
        assert stack.best is not None
        assert stack.best.file == str(folder / "backbones_of_a_library.py")
        assert stack.best.code == "return x.mean(1) if x.shape[1] > 4 else x.sum(1)"
