"""How an error reaches the person at the terminal: never as a traceback, unless asked for."""

from __future__ import annotations

import platform
import sys
import traceback
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from trtdiag.errors import InternalError, PlatformError, TrtdiagError, UserError
from trtdiag.files.atomic_write import write_whole
from trtdiag.wording import first_line


def show(error: TrtdiagError, *, debug: bool) -> int:
    """Print ``error`` to stderr and give its exit code; ``debug`` adds the traceback."""
    console = Console(stderr=True, highlight=False)
    with suppress(OSError, ValueError, SystemExit):  # standard error may be full, closed or a pipe that nobody reads
        console.print(Text.assemble(("error: ", "bold red"), error.message), soft_wrap=True)
        console.print(Text.assemble(("  because: ", "bold"), error.because), soft_wrap=True)
        console.print(Text.assemble(("  fix: ", "bold"), error.fix), soft_wrap=True)
        console.print(Text(f"  [{error.reference}]", style="dim"), soft_wrap=True)
        if debug:
            click.echo("".join(traceback.format_exception(error)), err=True)
    return error.exit_code


def exited(error: SystemExit) -> UserError:
    """Say that the model's code, or a library, called ``sys.exit`` in the middle of a command."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return UserError(
        "code of the model or of a library called sys.exit",
        because=f"sys.exit({error.code!r}) at {Path(last.filename).name}:{last.lineno}, before the command had ended",
        fix="take the call out: a model's forward has to return",
        reference="code-exited",
    )


def as_ours(error: Exception) -> TrtdiagError:
    """An exception that should not have happened: that PyTorch cannot be imported, or a bug of ours."""
    missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
    if "torch" not in sys.modules and (missing or any(map(_imports_torch, traceback.extract_tb(error.__traceback__)))):
        return PlatformError(
            "PyTorch cannot be imported",
            because=f"{type(error).__name__}: {first_line(error, 'no message')}",
            fix=f"mend or install it again for {sys.executable}: python -c 'import torch' has to pass there",
            reference="torch-not-importable",
        )
    return as_internal(error)


def _imports_torch(frame: traceback.FrameSummary) -> bool:
    return frame.name == "<module>" and Path(frame.filename).parts[-2:] == ("torch", "__init__.py")


def as_internal(error: Exception) -> InternalError:
    """An exception that should not have happened, as our bug, with a file that lets us see it."""
    text = "".join(traceback.format_exception(error))
    import trtdiag

    torch = getattr(sys.modules.get("torch"), "__version__", "none")  # not imported: that may be what failed
    facts = (
        f"trtdiag {trtdiag.__version__}, torch {torch}, Python {platform.python_version()}, "
        f"{platform.platform()}\ncommand: {' '.join(sys.argv)}\n\n"
    )
    path = Path(f"trtdiag-crash-{sha256(text.encode()).hexdigest()[:8]}.txt")
    try:
        write_whole(path, ((facts + text).encode("utf-8", "backslashreplace"),))
        where = f"please report it with {path} (the traceback and versions; no part of the model)"
    except OSError as refused:
        where = f"please report it with the output of --debug ({path} could not be written: {refused})"
    internal = InternalError(
        f"trtdiag itself failed: {type(error).__name__}",
        because=first_line(error, "no message"),
        fix=where,
        reference="internal",
    )
    internal.__cause__ = error
    return internal
