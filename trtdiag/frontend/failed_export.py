"""What an export that failed leaves behind: the guards, and where in the user's code they came from."""

from __future__ import annotations

from types import TracebackType

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
    for tb in _tracebacks(error):
        code = tb.tb_frame.f_code
        frame = Frame(code.co_filename, tb.tb_lineno, code.co_name)
        module = str(tb.tb_frame.f_globals.get("__name__", ""))
        if module.split(".")[0] not in ("torch", OWN) and frame.package not in ("torch", "python"):
            frames.append(frame)
    return Stack(tuple(dict.fromkeys(frames))) if frames else NO_STACK


def failed_env(error: BaseException) -> ShapeEnv | None:
    """The ShapeEnv that was alive when the export failed, found in the frames of its traceback."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        for tb in _tracebacks(current):
            for value in (tb.tb_frame.f_locals.get("shape_env"), tb.tb_frame.f_locals.get("self")):
                if isinstance(value, ShapeEnv):
                    return value
        current = current.__context__
    return None


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
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if any(tb.tb_frame.f_code.co_name in _AFTER_TRACING for tb in _tracebacks(current)):
            return True
        current = current.__context__
    return False


def failed_guards(env: ShapeEnv, stacks: GuardStacks) -> list[RawGuard]:
    """The guards of a failed export, each with the stack that the recorder noted."""
    known = {name: expr for name, expr in replacements(env).items() if not getattr(expr, "is_number", False)}
    stacks.also_in_roots(known)
    return [
        RawGuard(in_roots(condition, known), "export error", stacks.of(condition) or stack, op=stacks.op_of(condition))
        for condition, stack in shape_env_guards(env)
    ]


def _tracebacks(error: BaseException) -> list[TracebackType]:
    chain: list[TracebackType] = []
    tb = error.__traceback__
    while tb is not None:
        chain.append(tb)
        tb = tb.tb_next
    return chain
