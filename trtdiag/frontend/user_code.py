"""The user's code, which may do anything: what ends it ends as an error that names it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import NoReturn, Protocol

from trtdiag.errors import CaptureError, TrtdiagError
from trtdiag.graph.source import OWN, Frame


class Watch(Protocol):
    """Hears of the user's code: a process that watches this one, say."""

    def begins(self, what: str) -> None:
        """It begins."""

    def ends(self) -> None:
        """It came back, or raised."""

    def copied(self, error: CaptureError) -> None:
        """It forked, and this is the copy, which ends with the error."""


watch: Watch | None = None
"""Set by a program that has one."""


@contextmanager
def users_code(what: str, *, reference: str, fix: str) -> Iterator[None]:
    """Run a part of the user's code.

    A copy of the process that this part made by forking ends here: it would report, and clean up, a second time.

    Args:
        what: What it is, a noun.
        reference: Of the error where it raises.
        fix: What to do then.

    Raises:
        CaptureError: It raised anything but ``KeyboardInterrupt``, or called ``sys.exit`` (``code-exited``).
    """
    ours = os.getpid()
    if watch is not None:
        watch.begins(what)
    try:
        yield
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        if os.getpid() != ours:  # how a copy ends that was made to do something aside
            _end_copy(error.code if isinstance(error.code, int) else int(error.code is not None))
        raise CaptureError(
            f"{what} called sys.exit",
            because=f"sys.exit({error.code!r}){_place(error, ' at ')}, before there was anything to report",
            fix="take the call out: what runs here has to return",
            reference="code-exited",
        ) from error
    except BaseException as error:  # libraries have kinds that are no Exception
        place = _place(error, " (", ")")
        raise CaptureError(
            f"{what} failed", because=f"{said(error)}{place}{_root(error)}", fix=fix, reference=reference
        ) from error
    finally:
        if os.getpid() != ours:
            _refuse_copy(what)
        if watch is not None:
            watch.ends()


def _root(error: BaseException) -> str:
    """What was raised first, where that is another error: libraries hide a failed import behind their own."""
    root, seen = error, {id(error)}
    while root.__cause__ is not None and id(root.__cause__) not in seen:
        root = root.__cause__
        seen.add(id(root))
    told = said(root)
    return "" if root is error or told in said(error) else f", raised from {told}"


def _refuse_copy(what: str) -> NoReturn:
    error = CaptureError(
        f"{what} forked, and its copy came back",
        because="two processes would go on from here, and report twice",
        fix="end the copy with os._exit where it was made; multiprocessing and subprocess do that",
        reference="code-forked",
    )
    if watch is None:
        sys.stderr.write(f"error: {error}\n")
    else:
        watch.copied(error)
    _end_copy(error.exit_code)


def _end_copy(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or none
            stream.flush()
    os._exit(code)


def refuse_torchscript(module: object) -> None:
    """Refuse a module of ``torch.jit``, which torch.export does not take, and whose ``forward`` has no signature.

    Raises:
        CaptureError: ``torchscript-module``.
    """
    import torch  # it takes seconds: --help, which comes here, should not wait for it

    if isinstance(module, torch.jit.ScriptModule):
        raise CaptureError(
            "a TorchScript module cannot be exported",
            because="torch.export traces Python, and torch.jit.script and torch.jit.trace leave none",
            fix="give the Python module that it was made from",
            reference="torchscript-module",
        )


def imported(name: str, what: str, reference: str) -> ModuleType:
    """Import a module of the user; the current folder is importable, and stays so.

    Args:
        name: Its dotted name.
        what: What names it, for errors: an option, say.
        reference: Of the error where there is no such module, or its code raises.

    Raises:
        CaptureError: That, or one of ``users_code``.
    """
    if not all(name.split(".")):
        raise CaptureError(
            f"{what}: {name!r} is no name of a module",
            because="a name has words with single dots between, and none before or behind",
            fix="write package.module",
            reference=reference,
        )
    try:
        here = str(Path.cwd())
    except OSError as error:
        raise CaptureError(
            f"{what}: cannot import {name!r}",
            because=f"the folder that this runs in is not there: {error.strerror}",
            fix="change to a folder that exists",
            reference="no-working-folder",
        ) from error
    if here not in sys.path:
        sys.path.insert(0, here)
    with users_code(f"the import of {name!r}", reference=reference, fix="mend it, or install what it needs"):
        try:
            return importlib.import_module(name)
        except ImportError as error:
            missing = error
    raise CaptureError(
        f"{what}: cannot import {name!r}",
        because=said(missing),
        fix="run from the folder that holds it, or install it",
        reference=reference,
    ) from missing


def imported_file(path: Path) -> ModuleType:
    """Run a file of Python as a module; the folder that holds it is importable, and stays so.

    Raises:
        CaptureError: ``factory-not-importable``, or one of ``users_code``.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise CaptureError(
            f"cannot run {path}",
            because="there is no such file" if not path.exists() else "it is no file of Python",
            fix="give path/to/file.py:name, or package.module:name",
            reference="factory-not-importable",
        )
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # what it defines can be found by its module's name, as of any import
    with users_code(str(path), reference="factory-not-importable", fix="mend it, or install what it needs"):
        spec.loader.exec_module(module)
    return module


def said(error: BaseException) -> str:
    """The kind of an exception and its text, where that has one: it is the user's code, too."""
    try:
        text = f"{error.message}: {error.because}" if isinstance(error, TrtdiagError) else str(error)
    except Exception:  # raised by a __str__ of the user
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place(error: BaseException, before: str, behind: str = "") -> str:
    """The user's line that raised it, or that called what did: ``model.py:41``; nothing where none of theirs ran."""
    frames = [Frame(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    others = [frame for frame in frames if frame.package not in (OWN, "python")]
    best = ([frame for frame in others if frame.package is None] or others)[-1:]
    return "".join(f"{before}{Path(frame.file).name}:{frame.line}{behind}" for frame in best)
