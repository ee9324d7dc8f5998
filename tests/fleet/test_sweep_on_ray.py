"""Sweeps on Ray, started on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FACTORIES = Path(__file__).with_name("sweep_factories.py")
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install ray")


def run(folder: Path, *arguments: str, code: int | None = None) -> subprocess.CompletedProcess[str]:
    """The command as a user starts it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "trtdiag", "sweep", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert code is None or done.returncode == code, done.stderr
    return done


def rows_of(folder: Path) -> dict[str, str]:
    rows = json.loads((folder / "results.json").read_text())["rows"]
    return {row["program"].rpartition(":")[2]: row["state"] for row in rows}


@pytest.mark.slow  # quick: steps, work and results of a sweep without Ray
@needs_ray
def test_a_crash_is_a_row_and_nothing_is_done_twice(tmp_path: Path) -> None:
    sources = [f"{FACTORIES}:{name}" for name in ("good", "aborts", "raises")]
    done = run(tmp_path, *sources, "--workers", "1", "--retries", "0", "--target", "11.4", "--csv", code=1)
    assert rows_of(tmp_path / "sweep") == {"good": "clean", "aborts": "crashed", "raises": "failed"}
    assert done.stdout.splitlines()[0] == "3 programs: 1 crashed, 1 failed, 1 clean"
    assert "aborts" in done.stderr
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep" / "steps").rglob("*") if path.is_file()}
    again = run(tmp_path, *sources, "--target", "11.4", code=1)
    assert again.stdout == done.stdout
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len((tmp_path / "sweep" / "results.csv").read_text().splitlines()) == 4


@needs_ray
@pytest.mark.slow  # two more starts of Ray
def test_one_worker_finds_what_two_find(tmp_path: Path) -> None:
    sources = [f"{FACTORIES}:{name}" for name in ("good", "even", "prints")]
    steps = ("--steps", "analyze,fix-dims,compile,verify", "--backend", "reference", "--min-segment-ops", "0")
    for workers in ("1", "2"):
        run(tmp_path, *sources, "--folder", workers, "--workers", workers, *steps, code=0)
    one, two = ((tmp_path / workers / "results.json").read_bytes() for workers in ("1", "2"))
    assert one == two


@needs_ray
@pytest.mark.slow  # another start of Ray
def test_what_this_machine_has_not_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, f"{FACTORIES}:good", "--memory-gib", "1000000", code=2)
    assert "a task asks for 1000000.0 GiB of memory, more than this machine has" in done.stderr
