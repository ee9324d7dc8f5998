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
from dataclasses import replace
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.frontend.data_dependent.example_values import EXPORT_MODULE
from trtdiag.frontend.recorded_conditions import in_roots
from trtdiag.graph.source import NO_STACK, OWN, Frame, Stack

_MAX_FRAMES = 40
# Files that every guard passes through: the symbolic shapes themselves, SymBool.__bool__, logging.
_BOOKKEEPING = re.compile(r"torch/(fx/experimental/|__init__\.py|_logging/|_guards\.py|utils/_stats|_utils)")


class Noted(NamedTuple):
    """Where a guard came up: its stack, and the op that was running."""

    stack: Stack
    op: str | None


class GuardStacks:
    """The stacks of the guards of every ShapeEnv that was alive while recording, by condition.

    A condition is found by its text too, for a saved guard is nothing else.  Texts are made once and only when one is
    asked for: a guard on the sizes of nested windows takes longer to print than to decide.
    """

    def __init__(self) -> None:
        self._noted: dict[Any, Noted] = {}
        self._texts: dict[str, Noted] = {}
        self._printed = 0  # so many conditions, in the order of ``_noted``, are in ``_texts``

    def note(self, condition: object) -> None:
        """Keep the present stack for ``condition``, if it is its first guard."""
        if condition not in self._noted:
            frame = sys._getframe(1)
            self._noted[condition] = Noted(python_stack(frame), running_op(frame))

    def also_in_roots(self, known: Mapping[str, Any]) -> None:
        """Find each condition under its replaced symbols too: torch rewrites its guards when a dim is derived.

        Args:
            known: Symbols that torch replaced, by name, with what they were replaced by.
        """
        for condition, noted in list(self._noted.items()):
            self._noted.setdefault(in_roots(condition, known), noted)

    def of(self, condition: object, otherwise: Stack = NO_STACK) -> Noted:
        """Where the first guard with this condition came up; ``otherwise``, and no op, where it was not noted."""
        found = self._noted.get(condition)
        if found is None:
            for known, noted in islice(self._noted.items(), self._printed, None):
                self._texts.setdefault(str(known), noted)
            self._printed = len(self._noted)
            found = self._texts.get(str(condition))
        return found or Noted(otherwise, None)


def running_op(frame: FrameType | None) -> str | None:
    """The op that the innermost dispatch on fake tensors around ``frame`` works on, else the innermost that was called.

    A kernel that is written as other ops (``max_pool1d``, ``cdist``) compares sizes before anything reaches a fake
    tensor.  Only frames between the guard and the user's code count: an op further out belongs to another call.  Of an
    op that torch computes with its prims (``prims.cat`` for ``aten.cat``) it is the op that the model has.
    """
    called: str | None = None
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if file.endswith("fake_tensor.py") and name in ("dispatch", "_dispatch_impl"):
            func = frame.f_locals.get("func")
            if not isinstance(func, torch._ops.OpOverload):
                return called
            if func.namespace != "prims":
                return str(func)
            called = called or str(func)
        own = frame.f_locals.get("self") if name == "__call__" else None
        if isinstance(own, torch._ops.OpOverload) and (called is None or called.startswith("prims.")):
            called = str(own)
        package = str(frame.f_globals.get("__name__", "")).split(".")[0]
        if package not in ("torch", OWN) and Frame(file, 0).package != "python":
            return called
        frame = frame.f_back
    return called


def with_code(frame: Frame) -> Frame:
    """The frame with the text of its line."""
    return replace(frame, code=linecache.getline(frame.file, frame.line).strip())


def python_stack(frame: FrameType | None) -> Stack:
    """The model's frames from ``frame`` outwards, outermost first, without torch's and Python's.

    Of torch's frames the innermost that is more than bookkeeping is kept as the last one: a guard whose stack ends
    outside torch comes from a Python condition on a size, any other from an op.  What called the export is no part of
    the model: it is kept only where the model has no line outside torch, and so no better place, and only as far as
    this package, which whoever asked for an analysis calls.
    """
    frames: list[Frame] = []
    innermost = True
    outside = False
    while frame is not None and len(frames) < _MAX_FRAMES:
        code = frame.f_code
        here = Frame(code.co_filename, frame.f_lineno, code.co_name)
        module = str(frame.f_globals.get("__name__", ""))
        package = module.split(".")[0]
        outside = outside or module == EXPORT_MODULE
        if outside and (package == OWN or any(known.package != "torch" for known in frames)):
            break
        if package == "torch" or here.package == "torch":
            if innermost and not _BOOKKEEPING.search(here.file):
                frames.append(here)
                innermost = False
        elif package != OWN and here.package != "python":
            frames.append(with_code(here))
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
