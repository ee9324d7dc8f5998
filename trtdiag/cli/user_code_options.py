"""The options about code of the user that a command runs: what to import, and how long it may take."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import click

from trtdiag.cli.crash_reporter import last_words
from trtdiag.cli.progress import LOADING
from trtdiag.cli.streams import prints_on_standard_error
from trtdiag.cli.supervised_process import Guard
from trtdiag.cli.trace_option import traced
from trtdiag.cli.value_checks import F, seconds_option, working_folder
from trtdiag.frontend.user_code import imported

if TYPE_CHECKING:
    from trtdiag.frontend.capture import Source

_LIMIT_S = 1800.0
"""A convention: a model of tens of gigabytes is downloaded and loaded in that time, and CI ends at all."""

_import_option = click.option(
    "--import", "imports", multiple=True, metavar="MODULE", help="Import first: a package of custom ops."
)


def _limit(ctx: click.Context, param: click.Parameter, seconds: float) -> None:
    del param
    if isinstance(ctx.obj, Guard):
        ctx.obj.limit_s = seconds


_limit_option = seconds_option(
    "--factory-limit",
    default=_LIMIT_S,
    least=None,
    words="For a factory, and for each import.",
    callback=_limit,
    expose_value=False,
)


_inputs_option = click.option(
    "--inputs",
    multiple=True,
    metavar="NAME=SIZES",
    help="What to export a module with: tokens=1..16x2..4096:int64, or x=1x3x224x224 for fixed sizes.",
)
_unpickle_option = click.option(
    "--unpickle", is_flag=True, help="Read a file of torch.save(module): this runs code that the file names."
)
_meta_option = click.option(
    "--meta", is_flag=True, help="Make the model on the meta device, without weights: a fraction of the memory."
)


def model_options(command: F) -> F:
    """``--inputs`` and ``--unpickle``: how a source that is a module becomes a program."""
    return _inputs_option(_unpickle_option(command))


def meta_option(command: F) -> F:
    """``--meta``, for commands that need no weights."""
    return _meta_option(command)


def named_source(source: str, inputs: Sequence[str], *, meta: bool = False, unpickle: bool = False) -> Source:
    """What SOURCE names, with what these options say of it.

    Raises:
        ArgumentError: ``wrong-inputs``, or it brings its own inputs or weights.
        CaptureError: It cannot be made.
    """
    from trtdiag.frontend.resolve_source import resolve_source  # torch takes seconds: --help should not wait for it
    from trtdiag.frontend.written_inputs import written_inputs

    return resolve_source(source, written_inputs(inputs) if inputs else None, meta=meta, unpickle=unpickle)


def file_alone(source: str, imports: Sequence[str], *, unpickle: bool) -> bool:
    """Whether this process is the command's own and runs no code of the user: SOURCE is the file of a program."""
    context = click.get_current_context(silent=True)
    own = context is not None and isinstance(context.obj, Guard)
    return own and not imports and not unpickle and os.path.isfile(source)


def users_options(command: F) -> F:
    """Add the options to a command; it gets ``imports``, for ``import_modules``."""
    return _import_option(_limit_option(command))


@contextmanager
def working(
    bar: AbstractContextManager[Callable[[str], None]], imports: Iterable[str] = (), *, reports: bool
) -> Iterator[Callable[[str], None]]:
    """Around the work of a command, after which come its texts: gives the function to call with each step.

    Args:
        bar: Shows the steps.
        imports: What to import first.
        reports: Whether a report goes to standard output, in the middle of which nothing else may be printed.
    """
    with traced(), bar as shown, last_words(shown) as step, prints_on_standard_error(reports=reports):
        step(LOADING)
        with _collected_after_imports(step) as first_step:
            import_modules(imports)
            yield first_step


@contextmanager
def _collected_after_imports(step: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Leave cyclic garbage alone until the first step, and what was imported until then for good.

    Torch and model libraries are millions of objects that stay.  To walk over them again and again takes a third of the
    time that their import takes (a Llama of transformers: 9.1 s with, 6.0 s without), and slows the export after it.
    Where the command runs within another process its collector is let alone.
    """
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(context.obj, Guard) or not gc.isenabled():
        yield step
        return
    gc.disable()

    def begun(name: str) -> None:
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        step(name)

    try:
        yield begun
    finally:
        gc.enable()


def import_modules(names: Iterable[str]) -> None:
    """Import packages that register custom ops or input types.

    Raises:
        CaptureError: One cannot be imported.
    """
    for name in names:
        here = str(working_folder())
        known = here in sys.path
        try:
            imported(name, "--import", "import-failed")
        finally:
            if not known and here in sys.path:
                sys.path.remove(here)
