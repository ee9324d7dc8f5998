"""Finds the module that a frame runs in by its globals, where ``inspect`` looks through all modules and their files.

Torch asks for it with each operator that it registers in Python, to note where.  A command imports two thousand
modules: this was 4 % of what it takes for a small file.

A command does this to its own process; a process that merely imports trtdiag is let alone.
"""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any


def find_by_globals() -> None:
    """Let ``inspect.getmodule`` take the module whose globals a frame has, if the frame's code is of its file."""
    search = inspect.getmodule

    def getmodule(object: Any, _filename: str | None = None) -> Any:
        if type(object) is FrameType:
            module = sys.modules.get(str(object.f_globals.get("__name__")))
            if module is not None and getattr(module, "__file__", None) == object.f_code.co_filename:
                return module
        return search(object, _filename)

    inspect.getmodule = getmodule
