"""Whole command runs that are killed: each file is the old or the new one, and the next run cleans up."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.compiling.programs import exported, mlp
from tests.files.killed_runs import COMMANDS, OLD, whole
from tests.harness.forked_runs import run_forked

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forks of one process that has loaded torch")


def _killed(folder: Path, commands: list[str], *, moments: int, steps: list[int]) -> dict[str, Any]:
    asked = {"folder": str(folder), "commands": commands, "moments": moments, "steps": steps, "seed": 11}
    code = "import runpy; runpy.run_module('tests.files.killed_runs', run_name='__main__')"
    done = run_forked(code, json.dumps(asked), cwd=ROOT, limit_s=3600)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    for found in told.values():
        assert found["codes"] == [found["codes"][1]] * 2
        assert found["codes"][0] in (0, 1), found
        assert set(found["seen"]) <= {"old", "new"}, found
        assert found["left"] == [], found
        assert set(found["after"]) == {"new"}, found
        assert found["mine"] == "mine"
    return told


@pytest.mark.slow  # quick: tests/artifact/test_artifact_faults.py kills while saving
def test_a_killed_analysis_leaves_whole_files(tmp_path: Path) -> None:
    """At two steps of writing: after the first file has its place, and before that.  Any moment is slow."""
    told = _killed(tmp_path, ["analyze"], moments=0, steps=[5, 1])["analyze"]
    assert told["killed"] >= 2
    assert told["left_by_kills"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_killed_at_many_moments_leave_whole_files(command: str, tmp_path: Path) -> None:
    told = _killed(tmp_path, [command], moments=40, steps=list(range(23, -1, -1)))[command]
    assert told["killed"] >= 20
    assert {"old", "new"} == set(told["seen"])


@pytest.mark.slow
def test_a_command_in_processes_of_its_own_ends_with_the_one_that_was_started(tmp_path: Path) -> None:
    """The process that is started only watches; that which writes the files must not outlive it."""
    torch.export.save(exported(mlp()), tmp_path / "model.pt2")
    command, outputs = COMMANDS["compile"]
    program = [sys.executable, "-m", "trtdiag", *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    nowhere: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    begun = time.monotonic()
    assert subprocess.run(program, cwd=tmp_path, env=environment, check=False, **nowhere).returncode == 0
    takes_s = time.monotonic() - begun
    chosen = random.Random(5)
    for _ in range(8):
        for output in outputs:
            (tmp_path / output).write_bytes(OLD)
        started = subprocess.Popen(program, cwd=tmp_path, env=environment, **nowhere)
        time.sleep(chosen.uniform(0.5, 1) * takes_s)
        started.kill()
        started.wait()
        time.sleep(0.2)  # the system ends the other one by itself
        states = [whole(tmp_path / output) for output in outputs]
        assert set(states) <= {"old", "new"}
        time.sleep(1)
        assert [whole(tmp_path / output) for output in outputs] == states, "something went on writing"
    assert subprocess.run(program, cwd=tmp_path, env=environment, check=False, **nowhere).returncode == 0
    assert [whole(tmp_path / output) for output in outputs] == ["new"] * len(outputs)
    assert list(tmp_path.rglob(".*")) == []
