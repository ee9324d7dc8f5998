"""Engines of earlier compilations are found again from Python, by ``torch.compile`` and when engines are rebuilt."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import trtdiag
from tests.compiling.programs import mlp
from trtdiag.artifact.rebuild import rebuild
from trtdiag.engine.backend import get_backend
from trtdiag.engine.saved_engines import SavedEngines
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages, with_changes
from trtdiag.targets import get_target


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each engine that was asked for was found."""
    found: list[bool] = []
    find = SavedEngines.find

    def noted(self: SavedEngines, about: str) -> tuple[bytearray, tuple[str, ...]] | None:
        kept = find(self, about)
        found.append(kept is not None)
        return kept

    monkeypatch.setattr(SavedEngines, "find", noted)
    return found


@pytest.mark.slow  # quick: rebuilding builds nothing again
def test_python_finds_the_engines_of_another_compilation(tmp_path: Path) -> None:
    options = with_changes(
        CompileOptions(), {"backend": "reference", "engine_cache": tmp_path, "verify": False, "target": "10.16"}
    )
    first, again = (compile_in_stages(mlp(), options) for _ in range(2))
    assert [engine.saved for engine in first.engines] == [False]
    assert [engine.saved for engine in again.engines] == [True]
    build = next(stage for stage in again.stages if stage.name == "build")
    assert build.message == "1 of 1 engine from the engine cache"
    x = torch.randn(9, 33, 5)
    torch.testing.assert_close(again.compiled(x), mlp()[0](x), rtol=1e-5, atol=1e-6)
    # Of another target, another engine.
    other = compile_in_stages(mlp(), with_changes(options, {"target": "8.6"}))
    assert [engine.saved for engine in other.engines] == [False]


@pytest.mark.slow  # quick: engines that another compilation in Python built are found
def test_torch_compile_builds_nothing_again(tmp_path: Path, asked: list[bool]) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3)).eval()
    options = {"backend": "reference", "engine_cache": str(tmp_path), "min_segment_ops": 1}
    x = torch.randn(4, 5)
    for _ in range(2):
        torch.compiler.reset()
        compiled = torch.compile(model, backend="trtdiag", options=options, dynamic=True)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
    assert asked == [False, True]


def test_rebuilding_builds_nothing_again(tmp_path: Path, asked: list[bool]) -> None:
    program = trtdiag.compile(mlp(), backend="reference", portable=True, verify=False)
    options = CompileOptions(backend="reference", engine_cache=str(tmp_path))
    target = get_target(program.manifests[0].target)
    for _ in range(2):
        again = rebuild(program, get_backend("reference"), options, target)
        assert [one.network_hash for one in again.manifests] == [one.network_hash for one in program.manifests]
    assert asked == [False, True]
