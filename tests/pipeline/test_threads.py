"""Several threads at once: each gets what it would have got alone, and the process is left as it was."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import trtdiag
from tests.frontend.archive_samples import PROGRAMS, saved
from trtdiag.report.report import Report

THREADS = 8


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("threads")
    return {name: saved(make(), folder / f"{name}.pt2") for name, make in PROGRAMS.items()}


def at_once(function: Callable[[Any], Any], given: list[Any]) -> list[Any]:
    """What the function gives for each, begun in all threads at the same moment; raises what one of them raised."""
    together = threading.Barrier(len(given))

    def begin(one: Any) -> Any:
        together.wait()
        return function(one)

    with ThreadPoolExecutor(len(given)) as pool:
        return list(pool.map(begin, given))


def _state() -> tuple[object, ...]:
    attention = torch.backends.cuda
    return (
        list(warnings.filters),
        sys.stdout,
        attention.flash_sdp_enabled(),
        attention.mem_efficient_sdp_enabled(),
        attention.math_sdp_enabled(),
        torch.backends.mkldnn.enabled,
    )


def _told(report: Report) -> list[object]:
    """All that the analysis says, without how long it took."""
    stages = [(stage.name, stage.state, stage.message) for stage in report.analysis.stages]
    return [stages, report.analysis.not_checked, list(report.findings)]


@pytest.mark.slow  # quick: threads that compile, in tests/compiling/test_side_by_side.py
def test_analyze(paths: dict[str, Path]) -> None:
    names = [*paths, "branches", "shared", "branches"]
    assert len(names) == THREADS
    alone = {name: _told(trtdiag.analyze(paths[name])) for name in paths}
    before = _state()
    for name, report in zip(names, at_once(lambda name: trtdiag.analyze(paths[name]), names), strict=True):
        assert _told(report) == alone[name], name
    assert _state() == before


@pytest.mark.slow  # the quick run compiles in threads in tests/compiling/test_side_by_side.py
def test_compile(paths: dict[str, Path], tmp_path: Path) -> None:
    names = ["convolutions", "shared", "branches", "convolutions"] * 2
    before = _state()

    def compiled(index: int) -> Path:
        path = tmp_path / f"{index}.ep"
        trtdiag.save(trtdiag.compile(paths[names[index]], backend="reference", force=True), path)
        return path

    made = at_once(compiled, list(range(THREADS)))
    assert _state() == before
    loaded = at_once(trtdiag.load, made)
    for name, program in zip(names, loaded, strict=True):
        original = torch.export.load(paths[name])
        args, kwargs = original.example_inputs
        expected = original.module()(*args, **kwargs)
        # The reference backend computes in another order than PyTorch's kernels.
        torch.testing.assert_close(program(*args, **kwargs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_fix_dims(paths: dict[str, Path]) -> None:
    names = ["convolutions", "shared", "nested", "automatic"] * 2
    alone = {name: str(trtdiag.fix_dims(paths[name])) for name in dict.fromkeys(names)}
    before = _state()
    found = at_once(lambda name: str(trtdiag.fix_dims(paths[name])), names)
    assert found == [alone[name] for name in names]
    assert _state() == before
