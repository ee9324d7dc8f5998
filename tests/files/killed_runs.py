"""Runs commands in processes that are killed, and says what is left of their files.

A program of its own, started by ``test_killed_runs.py``: it loads everything once, and each run is a fork of it.  Its
argument is a JSON object; it prints one with what it saw.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch

import trtdiag
from tests.compiling.programs import exported, mlp
from tests.fixdims.small_models import Unshuffle
from trtdiag.artifact.load import load
from trtdiag.cli.main import main as trtdiag_main

OLD = b"old content of this file\n" * 100
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "analyze": (
        ["analyze", "model.pt2", "-o", "a.html", "--json", "a.json", "--sarif", "a.sarif", "--markdown", "a.md"],
        ["a.html", "a.json", "a.sarif", "a.md"],
    ),
    "compile": (
        ["compile", "model.pt2", "--backend", "reference", "-o", "c.ep", "--json", "c.json", "--engine-cache", "cache"],
        ["c.ep", "c.html", "c.json"],
    ),
    "bench": (["bench", "model.ep", "--rounds", "1", "--json", "b.json"], ["b.json"]),
    "fix-dims": (
        ["fix-dims", "shuffle:build", "--apply", "-o", "f.ep", "--write", "f.py", "--overwrite", "--json", "f.json"],
        ["f.ep", "f.py", "f.json"],
    ),
}
"""By name: the command, and the files that it writes."""
STEPS = ("open", "fsync", "chmod", "replace")
"""Of a file that is written, as functions of ``os``."""


def build() -> tuple[Any, ...]:
    """A model whose declared sizes must be corrected, for ``fix-dims``."""
    height = torch.export.Dim("h", min=16, max=65)
    return Unshuffle(), (torch.rand(1, 1, 16, 16),), {}, {"x": {2: height}}


def run_here(command: Sequence[str]) -> tuple[int, str]:
    """Exit code and standard error of a command in this process."""
    told = io.StringIO()
    try:
        with redirect_stderr(told), redirect_stdout(io.StringIO()):
            trtdiag_main(command)
    except SystemExit as ended:
        return int(ended.code or 0), told.getvalue()
    return 99, told.getvalue()


def forked(command: Sequence[str], before: Callable[[], None] = lambda: None) -> int:
    """The process id of a run of a command that has begun."""
    child = os.fork()
    if child:
        return child
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    before()
    try:
        trtdiag_main(command)
    except SystemExit as ended:
        os._exit(int(ended.code or 0))
    os._exit(99)


def killed_after(command: Sequence[str], seconds: float) -> bool:
    """Whether a run was still going on when it was killed."""
    child = forked(command)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def killed_at(command: Sequence[str], step: int) -> bool:
    """Whether a run got to its ``step``-th step of writing files, where it kills itself."""
    left = [step]

    def dying() -> None:
        for name in STEPS:
            real = getattr(os, name)

            def counted(*given: Any, real: Any = real, name: str = name, **rest: Any) -> Any:
                ours = name != "open" or ".trtdiag.part" in str(given[0])
                left[0] -= ours
                if ours and left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*given, **rest)

            setattr(os, name, counted)

    return os.WIFSIGNALED(os.waitpid(forked(command, dying), 0)[1])


def whole(path: Path) -> str:
    """``old``, ``new``, or what is wrong with a file."""
    if not path.exists():
        return "gone"
    content = path.read_bytes()
    if content == OLD:
        return "old"
    try:
        if path.name == "c.ep":
            load(path)
        elif path.suffix == ".ep":
            torch.export.load(path)
        elif path.suffix in (".json", ".sarif"):
            json.loads(content)
        elif path.suffix == ".py":
            compile(content, path, "exec")
        elif not content.endswith((b"</html>", b"</html>\n") if path.suffix == ".html" else b"\n"):
            return "cut"
    except Exception as error:  # whatever half a file causes
        return f"broken: {error}"
    return "new"


def main() -> None:
    """Kill runs at random moments, or at steps of their writing; then let one run to its end."""
    asked = json.loads(sys.argv[1])
    os.chdir(asked["folder"])
    torch.export.save(exported(mlp()), "model.pt2")
    if "bench" in asked["commands"]:
        trtdiag.save(trtdiag.compile("model.pt2", backend="reference", verify=False), "model.ep")
    Path("shuffle.py").write_text("from tests.files.killed_runs import build\n")
    mine = Path(".mine.0123.part")
    mine.write_text("mine")
    told = {}
    for name in asked["commands"]:
        command, outputs = COMMANDS[name]
        chosen = random.Random(asked["seed"])
        for output in outputs:
            Path(output).write_bytes(OLD)
        run_here(command)  # what it imports, forks have then
        begun = time.monotonic()
        first = os.waitstatus_to_exitcode(os.waitpid(forked(command), 0)[1])
        takes_s = time.monotonic() - begun
        seen: dict[str, int] = {}
        killed = 0
        moments = [("after", chosen.uniform(0, takes_s)) for _ in range(asked["moments"])]
        moments += [("step", step) for step in asked["steps"]]
        for kind, moment in moments:
            for output in outputs:
                Path(output).write_bytes(OLD)
            killed += killed_after(command, moment) if kind == "after" else killed_at(command, int(moment))
            for output in outputs:
                state = whole(Path(output))
                seen[state] = seen.get(state, 0) + 1
        left = len(list(Path().rglob(".*.trtdiag.part")))
        last = os.waitstatus_to_exitcode(os.waitpid(forked(command), 0)[1])
        told[name] = {
            "codes": [first, last],
            "killed": killed,
            "seen": seen,
            "left_by_kills": left,
            "left": sorted(str(path) for path in Path().rglob(".*") if path != mine),
            "after": [whole(Path(output)) for output in outputs],
            "mine": mine.read_text(),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
