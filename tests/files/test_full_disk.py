"""A disk that is full while a command saves: exit code 2, the old files whole, nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.files.killed_runs import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


def _namespace() -> list[str] | None:
    """What runs a command where a file system may be mounted, unseen by all others."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return None
    for way in (["unshare", "-m"], ["unshare", "-rm"]):
        probe = [*way, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return way
    return None


def _full(folder: Path, *commands: str) -> dict[str, Any]:
    way = _namespace()
    if way is None:
        pytest.skip("no file system can be mounted here: neither unshare -m nor unshare -rm may")
    done = subprocess.run(
        [*way, sys.executable, "-m", "tests.files.full_disk", str(folder), *commands],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TMPDIR": str(folder.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "terminate" not in done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _check(found: dict[str, Any]) -> None:
    """The command says that the disk is full, unless its files are so small that it was not."""
    assert set(found["states"]) <= {"old", "new"}, found
    assert found["left"] == []
    if "old" in found["states"]:
        assert found["code"] == 2, found
        assert "No space left on device" in found["told"]
        assert "with space" in found["told"]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_a_full_disk_keep_the_old_files(command: str, tmp_path: Path) -> None:
    none_free, *others = _full(tmp_path, command)[command]
    assert set(none_free["states"]) == {"old"}
    for found in (none_free, *others):
        _check(found)
