"""Whole command runs that are killed: each file is the old or the new one, and the next run cleans up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.files.killed_runs import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forks of one process that has loaded torch")


def _killed(folder: Path, commands: list[str], *, moments: int, steps: list[int]) -> dict[str, Any]:
    asked = {"folder": str(folder), "commands": commands, "moments": moments, "steps": steps, "seed": 11}
    done = subprocess.run(
        [sys.executable, "-m", "tests.files.killed_runs", json.dumps(asked)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
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


def test_a_killed_analysis_leaves_whole_files(tmp_path: Path) -> None:
    """Once at any moment, and at two steps of writing: after the first file has its place, and before that."""
    told = _killed(tmp_path, ["analyze"], moments=1, steps=[5, 1])["analyze"]
    assert told["killed"] >= 2
    assert told["left_by_kills"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_killed_at_many_moments_leave_whole_files(command: str, tmp_path: Path) -> None:
    told = _killed(tmp_path, [command], moments=40, steps=list(range(23, -1, -1)))[command]
    assert told["killed"] >= 20
    assert {"old", "new"} == set(told["seen"])
