"""What an export that failed leaves behind: its graph so far, guards, and where in the user's code they are from."""

from __future__ import annotations

import linecache
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from traceback import walk_tb
from types import FrameType
from typing import Any, TextIO, cast

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.frontend.guard_stacks import GuardStacks
from trtdiag.frontend.program import ExportFailure, RawGuard
from trtdiag.frontend.recorded_conditions import in_roots
from trtdiag.frontend.torch_private import replacements, shape_env_guards
from trtdiag.graph.source import NO_STACK, OWN, Frame, Stack

_GRAPH = "partial_fx_graph"
# nonzero: "i64[u0, 1]" = torch.ops.aten.nonzero.default(gt)
_VALUE = re.compile(r'^\s*(\w+): "(?:(\w+)\[([^"]*)\]|Sym\(([^"]*)\))', re.MULTILINE)
_FROM_DATA = re.compile(r"(z?uf?\d+)|Eq\((u\d+), 1\)")  # a bool is a number that is compared


def values_of_data(error: BaseException) -> Mapping[str, str]:
    """What bears each size or number from data: ``{"u0": "nonzero.shape[0]", "zuf0": "item"}``, as far as torch came.

    Args:
        error: Of torch.export.
    """
    found: dict[str, str] = {}
    for name, dtype, dims, number in _VALUE.findall(str(getattr(error, _GRAPH, ""))):
        for index, size in enumerate(dims.split(", ") if dtype else [number]):
            if symbol := _FROM_DATA.fullmatch(size):
                found.setdefault(symbol[1] or symbol[2], f"{name}.shape[{index}]" if dtype else name)
    return found


class PartialGraphWarning(UserWarning):
    """The graph as far as torch.export had come when it failed."""


@contextmanager
def partial_graphs_as_warnings() -> Iterator[None]:
    """Give the graph that torch.export prints to standard error when it fails as a warning, which can be held back.

    All else that is printed meanwhile, the model's own words among it, goes where it would.
    """
    if sys.stderr is None:
        yield
        return
    stream = _WithoutGraphs(sys.stderr)
    try:
        with redirect_stderr(cast("TextIO", stream)):
            yield
    finally:
        for graph in stream.graphs:
            warnings.warn(f"torch.export came this far:{graph}", PartialGraphWarning, stacklevel=2)


class _WithoutGraphs:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.graphs: list[str] = []

    def write(self, text: str) -> int:
        # torch prints in the handler of the very error that has the graph.
        graph = getattr(sys.exc_info()[1], _GRAPH, None)
        if graph is None:
            return self._stream.write(text)
        if text.strip():
            self.graphs.append(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# torch tells the user to try draft_export in a paragraph of its own; it says nothing about the model.
_ADVICE = "The error above occurred when calling torch.export.export."

# Lines about torch's own logging, and the ends of others that speak of no model; they are the same in every message.
_BOILERPLATE = re.compile(
    r"(For (more|extended|C\+\+)|If you suspect|The error above occurred|The following call raised|Caused by: \("
    r"|TORCHDYNAMO_|consider using data-dependent friendly|.*draft_export)"
)
_PLACES = re.compile(r'^\s*File ".*", line \d+, in .*\n(?:\s+.*\n?)?', re.MULTILINE)  # the place is told beside it
_ENDINGS = re.compile(r" (For more information|If this was caused by Python `not`|\(unhinted: ).*")


# What torch (2.13) says of inputs that stand below the name of a **parameter, which it puts beside the others.
_GATHERED = "Must provide a tree_name when there might be a mismatch"
_OF_GATHERED = "torch.export takes no dynamic_shapes where forward has **keywords: name these in its signature"


def export_failure(error: BaseException, relaxed: str | None) -> ExportFailure:
    """The failure as a value, with torch's own advice about other tools cut off."""
    message = str(getattr(error, "msg", None) or error)
    message = f"KeyError: {message}" if type(error) is KeyError else message  # else it is the key alone
    told = f"{_OF_GATHERED} ({message})" if message == _GATHERED else message.split(_ADVICE)[0].strip()
    return ExportFailure(
        type(error).__name__, told, relaxed, user_stack(error), tracing_finished(error), values_of_data(error)
    )


def user_stack(error: BaseException) -> Stack:
    """The frames of the traceback that lie outside torch, Python's library and this package, outermost first."""
    frames: list[Frame] = []
    for running, line in walk_tb(error.__traceback__):
        file = running.f_code.co_filename
        frame = Frame(file, line, running.f_code.co_name, linecache.getline(file, line).strip())
        module = str(running.f_globals.get("__name__", ""))
        if module.split(".")[0] not in ("torch", OWN) and frame.package not in ("torch", "python"):
            frames.append(frame)
    return Stack(tuple(dict.fromkeys(frames))) if frames else NO_STACK


def told_of_model(message: str) -> list[str]:
    """The lines of torch's message that speak of this model."""
    told: list[str] = []
    for line in _PLACES.sub("", message).splitlines():
        line = _ENDINGS.sub("", line).strip().removeprefix("- ")
        if told and told[-1].endswith(":") and line:
            told[-1] += f" {line}"  # what a heading announces stands in the next line: Suggested fixes: h = 8*_h
        elif line and not _BOILERPLATE.match(line):
            told.append(line)
    return told


def failed_env(error: BaseException) -> ShapeEnv | None:
    """The ShapeEnv that was alive when the export failed, found in the frames of its traceback."""
    values = (frame.f_locals.get(name) for frame in _frames(error) for name in ("shape_env", "self"))
    return next((value for value in values if isinstance(value, ShapeEnv)), None)


# Where torch turns the recorded guards into its answer: a failure inside comes after the whole model was traced.
_AFTER_TRACING = frozenset(
    {
        "produce_guards_and_solve_constraints",
        "produce_guards_verbose",
        "produce_guards",
        "_suggest_or_raise_constraint_violation",
        "make_constraints",
    }
)


def tracing_finished(error: BaseException) -> bool:
    """Whether the model had been traced to its end when the export failed, so that every guard is known."""
    return str(error) != _GATHERED and any(frame.f_code.co_name in _AFTER_TRACING for frame in _frames(error))


def failed_guards(env: ShapeEnv, stacks: GuardStacks) -> list[RawGuard]:
    """The guards of a failed export, each with the stack that the recorder noted."""
    known = {name: expr for name, expr in replacements(env).items() if not getattr(expr, "is_number", False)}
    stacks.also_in_roots(known)
    noted = ((condition, stacks.of(condition, stack)) for condition, stack in shape_env_guards(env))
    return [RawGuard(in_roots(condition, known), "export error", at.stack, op=at.op) for condition, at in noted]


def _frames(error: BaseException | None) -> Iterator[FrameType]:
    """The frames of an error's traceback, then of those that it was raised in the course of."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield from (frame for frame, _ in walk_tb(error.__traceback__))
        error = error.__context__
