"""Runs commands on a disk that is full, and says what is left of their files.

A program of its own, started by ``test_full_disk.py`` in a mount namespace, where it mounts a small file system.  Its
arguments are the folder to mount it on, and the commands; it prints a JSON object with what it saw.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

import trtdiag
from tests.compiling.programs import exported, mlp
from tests.files.killed_runs import COMMANDS, OLD, run_here, whole

PAGE_BYTES = 4096
FREE_PAGES = (0, 1, 3)
"""What is left on the disk.  A file can be begun on each, and some take no more."""


def fill(disk: Path, free_bytes: int) -> None:
    """Leave so many bytes on the disk."""
    (disk / "filler").unlink(missing_ok=True)
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with (disk / "filler").open("wb") as file:
        file.write(bytes(free - free_bytes))


def seen_on(disk: Path, command: list[str], outputs: list[str], free_pages: int) -> dict[str, Any]:
    """What a command says and leaves where so many pages are free."""
    (disk / "filler").unlink(missing_ok=True)
    for output in outputs:
        Path(output).write_bytes(OLD)
    fill(disk, free_pages * PAGE_BYTES)
    code, told = run_here(command)
    return {
        "code": code,
        "told": told,
        "states": [whole(Path(output)) for output in outputs],
        "left": sorted(str(path) for path in disk.rglob(".*")),
    }


def main() -> None:
    """Mount, fill, run."""
    disk, elsewhere, names = Path(sys.argv[1]), Path(tempfile.mkdtemp()), sys.argv[2:]
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    os.chdir(disk)
    torch.export.save(exported(mlp()), elsewhere / "model.pt2")
    trtdiag.save(trtdiag.compile(elsewhere / "model.pt2", backend="reference", verify=False), elsewhere / "model.ep")
    trtdiag.analyze(elsewhere / "model.pt2").save(elsewhere / "report.json")
    (elsewhere / "shuffle.py").write_text("from tests.files.killed_runs import build\n")
    sys.path.insert(0, str(elsewhere))
    told = {}
    for name in names:
        command, outputs = COMMANDS[name]
        placed = [str(elsewhere / word) if (elsewhere / word).exists() else word for word in command]
        told[name] = [seen_on(disk, placed, outputs, free_pages) for free_pages in FREE_PAGES]
    print(json.dumps(told))


if __name__ == "__main__":
    main()
