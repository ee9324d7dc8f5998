"""One try of ``torch.export`` as it is asked, with everything that it leaves behind, passed or not."""

from __future__ import annotations

import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO

from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.failed_export import export_failure, failed_env, tracing_finished
from trtdiag.frontend.guard_stacks import recording
from trtdiag.frontend.program import Program, SourceKind
from trtdiag.frontend.program_of_export import program_of, program_of_failure


@dataclass(frozen=True)
class Attempted:
    """How one export ended.

    Attributes:
        program: The program; without a graph and with ``failure`` where the export was refused.
        finished: Whether the whole model was traced, so that the guards are complete.
    """

    program: Program
    finished: bool


def attempted(recipe: Recipe, label: str = "the given module") -> Attempted:
    """Export once, exactly as ``recipe`` says, and keep the guards with their lines whatever happens."""
    started = time.perf_counter()
    with recording() as stacks, redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # torch prints whole graphs
        try:
            exported = recipe.export()
        except Exception as error:  # torch raises anything here; every kind is read by the caller
            seconds, env, failure = time.perf_counter() - started, failed_env(error), export_failure(error, None)
            program = program_of_failure(recipe, label, SourceKind.LIVE, failure, env, stacks, seconds)
            return Attempted(program, tracing_finished(error))
    seconds = time.perf_counter() - started
    program = program_of(exported, label, SourceKind.LIVE, recipe=recipe, stacks=stacks, seconds=seconds)
    return Attempted(program, finished=True)
