"""Reads files in a process of its own that notes what Python does: ``python -m tests.artifact.audited_reading FOLDER``.

Prints a JSON object: for each file of the folder what torch.export.load, a call of what it gives, and trtdiag.load came
to, and every event by which something beyond reading that file happens.
"""

from __future__ import annotations

import json
import os
import site
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import trtdiag
from trtdiag.engine import reference
from trtdiag.errors import TrtdiagError

_STARTS = (
    "os.",
    "subprocess.",
    "socket.",
    "shutil.",
    "ctypes.",
    "pty.",
    "webbrowser.",
    "urllib.",
    "tempfile.",
    "glob.",
)
_HARMLESS = ("os.listdir", "os.scandir", "os.walk")
_READ_AT_WILL = tuple(
    os.path.realpath(path)
    for path in (*sys.path, sysconfig.get_path("stdlib"), *site.getsitepackages(), "/proc/self", "/sys", "/dev/null")
)


class _Watch:
    """Notes events while it is on; an audit hook stays until the process ends."""

    def __init__(self) -> None:
        self.file = ""
        self.events: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.file:
            return
        if event == "open":
            path, mode = str(args[0]), args[1]
            place = os.path.realpath(path)
            reads = mode is None or not set(str(mode)) & set("wax+")
            if not (reads and (place == self.file or place.startswith(_READ_AT_WILL) or path.isdigit())):
                self.events.append(f"open {path} {mode}")
        elif event == "import":
            name = str(args[0]).partition(".")[0]
            if name not in sys.stdlib_module_names and name not in ("torch", "trtdiag", "numpy", "sympy", "z3"):
                self.events.append(f"import {args[0]}")
        elif event == "exec":
            code = str(getattr(args[0], "co_names", "")) + str(getattr(args[0], "co_consts", ""))
            if "trap" in code:
                self.events.append(f"exec {code[:100]}")
        elif event.startswith(_STARTS) and event not in _HARMLESS:
            self.events.append(f"{event} {args!r}"[:200])
        elif event == "pickle.find_class":
            self.events.append(f"{event} {args[1:]!r}")


def _outcome(action: Callable[[], object]) -> tuple[str, object]:
    try:
        return "ok", action()
    except TrtdiagError as error:
        return error.reference, None
    except Exception as error:  # what torch itself makes of a file
        return type(error).__name__, None


def _read(path: Path, watch: _Watch | None, loads: list[int]) -> dict[str, Any]:
    x = torch.linspace(-2, 2, 35).reshape(7, 5)
    if watch is not None:
        watch.events, watch.file = [], os.path.realpath(path)
    loads.clear()
    ours, program = _outcome(lambda: trtdiag.load(path))
    theirs, exported = _outcome(lambda: torch.export.load(str(path)))
    read = len(loads)
    calls = [""]
    if program is not None:
        calls.append(_outcome(lambda: program(x))[0])  # type: ignore[operator]
    if exported is not None:
        calls.append(_outcome(lambda: exported.module()(x))[0])  # type: ignore[attr-defined]
    events = [] if watch is None else watch.events
    if watch is not None:
        watch.file = ""
    return {"trtdiag": ours, "torch": theirs, "calls": calls[1:], "read": read, "events": events}


def main(folder: Path) -> None:
    """Read the file ``honest.pt2`` twice, so that all is imported, then every file."""
    loads: list[int] = []
    load = reference._Reference.load

    def counted(self: Any, blob: Any, manifest: Any) -> Any:
        loads.append(len(blob))
        return load(self, blob, manifest)

    reference._Reference.load = counted  # type: ignore[method-assign]
    for _ in range(2):
        _read(folder / "honest.pt2", None, loads)
    watch = _Watch()
    found = {path.name: _read(path, watch, loads) for path in sorted(folder.glob("*.pt2"))}
    sys.stdout.write("\n" + json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
