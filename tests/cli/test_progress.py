"""What is shown while something long runs: only to a person, and never as markup."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import rich.progress

import trtdiag
from tests.compiling.programs import mlp
from trtdiag.cli.progress import ANALYZE_STAGES, COMPILE_STAGES, progress_bar, step_line
from trtdiag.engine.build_watch import BuildStep

Shown = Callable[[], AbstractContextManager[Callable[[str], None]]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("shown", [progress_bar, step_line])
def test_a_log_gets_nothing(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with shown() as step:
        step("export 1: as asked")
    assert stream.getvalue() == ""


def test_a_person_sees_each_step_with_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with step_line() as step:
        for words in ("export 1: as asked", "export 2: with [red]h[/red] \x1b]0;title\x07\nand w"):
            step(words)
    text = stream.getvalue()
    assert "export 2: with [red]h[/red] \\x1b]0;title\\x07 and w" in text
    assert "]0;title\x07" not in text.replace("\\x1b]0;title\\x07", "")


@pytest.mark.slow  # quick: the stages of a run, in tests/pipeline
def test_the_bars_stages_are_those_that_run() -> None:
    seen: list[str] = []
    trtdiag.compile(mlp(), backend="reference", profile_layers=True, progress=seen.append)
    assert [name for name in seen if name in COMPILE_STAGES] == list(COMPILE_STAGES[:-1])  # the command saves
    seen.clear()
    trtdiag.analyze(mlp(), progress=seen.append)
    assert [name for name in seen if name in ANALYZE_STAGES] == list(ANALYZE_STAGES[:-1])  # the command reports


def test_a_stage_that_runs_again_does_not_move_the_bar_back(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[float] = []
    update = rich.progress.Progress.update

    def noted(self: rich.progress.Progress, task: rich.progress.TaskID, **changes: object) -> None:
        update(self, task, **changes)  # type: ignore[arg-type]
        if "description" in changes:
            moved.append(self.tasks[task].completed)

    monkeypatch.setattr(rich.progress.Progress, "update", noted)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar(COMPILE_STAGES) as step:
        for name in ("load torch", "capture", "rules", "lower", "a factory's step", "save"):
            step(name)
    rules = COMPILE_STAGES.index("rules")
    assert moved == [0, 0, rules, rules, rules, len(COMPILE_STAGES) - 1]


def test_a_share_of_a_stage_has_a_bar_of_its_own_and_words_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[tuple[str, float]]] = []
    update = rich.progress.Progress.update

    def noted(self: rich.progress.Progress, task: rich.progress.TaskID, **changes: object) -> None:
        update(self, task, **changes)  # type: ignore[arg-type]
        seen.append([(each.description, each.completed) for each in self.tasks if each.visible])

    monkeypatch.setattr(rich.progress.Progress, "update", noted)
    monkeypatch.setattr(sys, "stderr", Terminal())
    step = BuildStep("building [red]engine[/red]\n1")
    step.share = 0.5
    with progress_bar(COMPILE_STAGES) as tell:
        for name in ("build", step, "assemble"):
            tell(name)
    build = COMPILE_STAGES.index("build")
    assert seen[1:3] == [[("build", build)], [("build", build), ("building [red]engine[/red] 1", 0.5)]]
    assert seen[-1] == [("assemble", build + 1)]
