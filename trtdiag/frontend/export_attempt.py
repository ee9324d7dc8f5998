"""One try of ``torch.export`` as it is asked, with everything that it leaves behind, passed or not."""

from __future__ import annotations

import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

from trtdiag.frontend.factory import Exported, Recipe
from trtdiag.frontend.failed_export import export_failure, failed_env
from trtdiag.frontend.guard_stacks import recording
from trtdiag.frontend.program import Program, SourceKind
from trtdiag.frontend.program_of_export import program_of


def attempted(recipe: Recipe) -> Program:
    """Export once, exactly as ``recipe`` says, and keep the guards with their lines whatever happens.

    Returns:
        The program; without a graph and with ``failure`` where the export was refused.
    """
    started = time.perf_counter()
    exported = failure = env = None
    with recording() as stacks, redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # torch prints whole graphs
        try:
            exported = recipe.export()
        except Exception as error:  # torch raises anything here; every kind is read by the caller
            failure, env = export_failure(error, None), failed_env(error)
        seconds = time.perf_counter() - started
    outcome = Exported(exported, recipe, failure, env, stacks, seconds)
    return program_of(outcome, "the given module", SourceKind.LIVE)
