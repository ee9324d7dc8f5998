"""Runs in a child process: results, failures, crashes, limits, and what to do without a child."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.fixdims.small_models import CountedBranch
from trtdiag.errors import DimsError
from trtdiag.fixdims import child_export, child_process, exporter
from trtdiag.fixdims.child_export import import_for_exports
from trtdiag.fixdims.child_process import run_in_child
from trtdiag.fixdims.fix import Outcome
from trtdiag.fixdims.run import fix_dims
from trtdiag.frontend.data_dependent import torch_checks
from trtdiag.frontend.data_dependent.example_values import DataValues, example_values

ENOUGH_S = 60.0  # far more than any of these takes; only the tests of the limit have less


class Sleeps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        time.sleep(300)
        return x


class Dies(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        os._exit(3)


def test_a_value_comes_back_and_nothing_of_this_process_changes() -> None:
    seen: list[int] = []

    def work() -> tuple[int, torch.dtype]:
        seen.append(1)
        return os.getpid(), torch.float16

    ended = run_in_child(work, ENOUGH_S)
    assert ended.value is not None
    assert ended.value[0] != os.getpid()
    assert ended.value[1] is torch.float16
    assert seen == []


def test_a_large_value_comes_back_whole() -> None:
    ended = run_in_child(lambda: bytes(range(256)) * 65_537, ENOUGH_S)  # far beyond what a pipe buffers
    assert ended.value == bytes(range(256)) * 65_537


def test_a_failure_comes_back_as_words_and_ours_as_itself() -> None:
    assert "ZeroDivisionError: " in run_in_child(lambda: 1 // 0, ENOUGH_S).failure

    def ours() -> None:
        raise DimsError("a", because="b", fix="c", reference="d-e")

    with pytest.raises(DimsError) as caught:
        run_in_child(ours, ENOUGH_S)
    assert (caught.value.message, caught.value.reference) == ("a", "d-e")


def test_a_crash_and_a_limit_are_told() -> None:
    assert "code 3" in run_in_child(lambda: os._exit(3), ENOUGH_S).failure
    killed = run_in_child(lambda: os.kill(os.getpid(), 9), ENOUGH_S)
    assert "signal 9" in killed.failure
    late = run_in_child(lambda: time.sleep(300), 0.5)
    assert late.timed_out
    assert "0.5 s" in late.failure


def test_a_child_imports_nothing_of_torch_for_its_export() -> None:
    def imported() -> set[str]:
        before = set(sys.modules)
        torch.export.export(nn.Linear(4, 2), (torch.randn(3, 4),), dynamic_shapes=({0: Dim.DYNAMIC},), strict=False)
        return {name for name in sys.modules.keys() - before if name.split(".")[0] in ("torch", "networkx", "sympy")}

    import_for_exports()
    assert run_in_child(imported, ENOUGH_S).value == set()


@pytest.mark.parametrize(("model", "words"), [(Sleeps(), "longer than 2 s"), (Dies(), "code 3")])
def test_an_export_that_hangs_or_crashes_ends_in_an_answer(model: nn.Module, words: str) -> None:
    fix = fix_dims(model, (torch.randn(2, 4),), dynamic_shapes={"x": {0: Dim("b", max=64)}}, time_limit_s=2.0)
    assert fix.outcome is Outcome.IMPOSSIBLE
    assert words in fix.failure


def test_without_a_child_the_export_runs_here_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "no_child", lambda: "CUDA is in use in this process")
    monkeypatch.setattr("trtdiag.fixdims.exporter.no_child", lambda: "CUDA is in use in this process")
    ended = run_in_child(os.getpid, ENOUGH_S)
    assert (ended.value, ended.here) == (os.getpid(), True)
    fix = fix_dims(nn.ReLU(), (torch.randn(2, 4),), dynamic_shapes=({0: Dim("b", max=64)},))
    assert fix.outcome is Outcome.UNCHANGED
    assert any("without a time limit: CUDA" in note for note in fix.notes)


def test_a_model_is_run_once_for_what_its_data_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[object] = []

    def counted(*args: Any) -> DataValues:
        runs.append(args)
        return example_values(*args)

    for module in (child_process, exporter):
        monkeypatch.setattr(module, "no_child", lambda: "the runs are counted in this process")
    for module in (child_export, torch_checks):
        monkeypatch.setattr(module, "example_values", counted)
    x = torch.tensor([1.0, -1.0, 2.0, 3.0, -2.0, 5.0, 7.0])
    fix = fix_dims(CountedBranch(), (x,), dynamic_shapes={"x": {0: Dim("n", min=2, max=100)}})
    assert (len(fix.checks), fix.confirmation.exported, len(runs)) == (1, True, 1)
