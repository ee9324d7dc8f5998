"""What an engine does not do as its network says: told in the report, also of an engine from the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trtdiag.engine.reference import _Reference
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages


def test_notes_reach_the_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = _Reference.build

    def build(self: _Reference, *args: Any) -> Any:
        args[-1].note("a layer chose its types")
        return plain(self, *args)

    monkeypatch.setattr(_Reference, "build", build)
    model = (torch.nn.Linear(3, 5), (torch.randn(2, 3),), {}, None)
    options = CompileOptions("8.6", "reference", verify=False, engine_cache=str(tmp_path))
    for saved in (False, True):
        found = compile_in_stages(model, options)
        assert [engine.saved for engine in found.engines] == [saved]
        assert found.report.analysis.program.notes[-1] == "engine 0: a layer chose its types"
    monkeypatch.setattr(_Reference, "build", plain)
    other = compile_in_stages(model, CompileOptions("8.6", "reference", verify=False))
    assert not [note for note in other.report.analysis.program.notes if "engine 0" in note]
