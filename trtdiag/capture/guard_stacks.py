"""Records which Python lines caused each guard, while an export runs.

A saved program keeps the text of its guards but not their origin, and a live one only the innermost frame, which
lies inside torch for every guard that an op asked for.  While the code of the user runs under fake tensors its frames
are still on the Python stack: this is the only moment to note them.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.capture.data_values import EXPORT_MODULE
from trtdiag.capture.recorded import in_roots
from trtdiag.graph.source import Frame, Stack

_MAX_FRAMES = 40
# Files that every guard passes through: the symbolic shapes themselves, SymBool.__bool__, logging.
_BOOKKEEPING = re.compile(r"torch/(fx/experimental/|__init__\.py|_logging/|_guards\.py|utils/_stats|_utils)")


class GuardStacks:
    """The stacks of the guards of every ShapeEnv that was alive while recording, by text of the condition."""

    def __init__(self) -> None:
        self._stacks: dict[str, Stack] = {}
        self._ops: dict[str, str] = {}
        self._conditions: dict[str, Any] = {}

    def of(self, condition: object) -> Stack | None:
        """The stack of the first guard with this condition."""
        return self._stacks.get(str(condition))

    def op_of(self, condition: object) -> str | None:
        """The op that was running when the first guard with this condition came up."""
        return self._ops.get(str(condition))

    def note(self, condition: object) -> None:
        """Keep the present stack for ``condition``, if it is its first guard."""
        key = str(condition)
        if key not in self._stacks:
            self._stacks[key] = python_stack(sys._getframe(1))
            self._conditions[key] = condition
            op = running_op(sys._getframe(1))
            if op is not None:
                self._ops[key] = op

    def also_in_roots(self, known: Mapping[str, Any]) -> None:
        """Find each condition under its replaced symbols too: torch rewrites its guards when a dim is derived.

        Args:
            known: Symbols that torch replaced, by name, with what they were replaced by.
        """
        for key, condition in list(self._conditions.items()):
            rooted = str(in_roots(condition, known))
            if rooted != key:
                self._stacks.setdefault(rooted, self._stacks[key])
                if key in self._ops:
                    self._ops.setdefault(rooted, self._ops[key])


def running_op(frame: FrameType | None) -> str | None:
    """The op that the innermost dispatch on fake tensors around ``frame`` works on.

    Only frames between the guard and the user's code count: an op further out belongs to another call.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith("fake_tensor.py") and frame.f_code.co_name in ("dispatch", "_dispatch_impl"):
            func = frame.f_locals.get("func")
            return str(func) if isinstance(func, torch._ops.OpOverload) else None
        package = str(frame.f_globals.get("__name__", "")).split(".")[0]
        if package not in ("torch", "trtdiag") and Frame(file, 0).package != "python":
            return None
        frame = frame.f_back
    return None


def python_stack(frame: FrameType | None) -> Stack:
    """The model's frames from ``frame`` outwards, outermost first, without torch's and Python's.

    Of torch's frames the innermost that is more than bookkeeping is kept as the last one: a guard whose stack ends
    outside torch comes from a Python condition on a size, any other from an op.  What called the export is no part of
    the model: it is kept only where the model has no line outside torch, and so no better place.
    """
    frames: list[Frame] = []
    innermost = True
    while frame is not None and len(frames) < _MAX_FRAMES:
        code = frame.f_code
        here = Frame(code.co_filename, frame.f_lineno, code.co_name)
        module = str(frame.f_globals.get("__name__", ""))
        if module == EXPORT_MODULE and any(known.package != "torch" for known in frames):
            break
        package = module.split(".")[0]
        if package == "torch" or here.package == "torch":
            if innermost and not _BOOKKEEPING.search(here.file):
                frames.append(here)
                innermost = False
        elif package != "trtdiag" and here.package != "python":
            frames.append(Frame(here.file, here.line, here.function, linecache.getline(here.file, here.line).strip()))
            innermost = False
        frame = frame.f_back
    return Stack(tuple(reversed(frames)))


@contextmanager
def recording() -> Iterator[GuardStacks]:
    """Note the stack of each guard that any ShapeEnv records inside this context."""
    stacks = GuardStacks()
    original = ShapeEnv._log_guard

    def log_guard(self: ShapeEnv, prefix: str, g: Any, forcing_spec: bool) -> None:
        stacks.note(g)
        original(self, prefix, g, forcing_spec)

    ShapeEnv._log_guard = log_guard  # type: ignore[method-assign]  # restored below, whatever happens
    try:
        yield stacks
    finally:
        ShapeEnv._log_guard = original  # type: ignore[method-assign]
