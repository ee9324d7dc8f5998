"""What an export that failed leaves behind: the guards, and where in the user's code they came from."""

from __future__ import annotations

from collections.abc import Iterator
from traceback import walk_tb
from types import FrameType

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.frontend.guard_stacks import GuardStacks
from trtdiag.frontend.program import ExportFailure, RawGuard
from trtdiag.frontend.recorded_conditions import in_roots
from trtdiag.frontend.torch_private import replacements, shape_env_guards
from trtdiag.graph.source import NO_STACK, OWN, Frame, Stack

# torch tells the user to try draft_export in a paragraph of its own; it says nothing about the model.
_ADVICE = "The error above occurred when calling torch.export.export."


def export_failure(error: BaseException, relaxed: str | None) -> ExportFailure:
    """The failure as a value, with torch's own advice about other tools cut off."""
    message = str(getattr(error, "msg", None) or error)
    told = message.split(_ADVICE)[0].strip()
    return ExportFailure(type(error).__name__, told, relaxed, user_stack(error), tracing_finished(error))


def user_stack(error: BaseException) -> Stack:
    """The frames of the traceback that lie outside torch, Python's library and this package, outermost first."""
    frames: list[Frame] = []
    for running, line in walk_tb(error.__traceback__):
        frame = Frame(running.f_code.co_filename, line, running.f_code.co_name)
        module = str(running.f_globals.get("__name__", ""))
        if module.split(".")[0] not in ("torch", OWN) and frame.package not in ("torch", "python"):
            frames.append(frame)
    return Stack(tuple(dict.fromkeys(frames))) if frames else NO_STACK


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
    return any(frame.f_code.co_name in _AFTER_TRACING for frame in _frames(error))


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
