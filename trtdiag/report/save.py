"""Writing a file: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from trtdiag.errors import UserError


def write_atomically(path: Path, text: str, *, what: str = "report") -> None:
    """Write ``text`` to ``path`` through a file beside it, so that a reader never sees half a report.

    Raises:
        UserError: The place cannot be written.
    """
    save_atomically(path, lambda file: file.write(text.encode("utf-8")), what=what)


def save_atomically(path: Path, write: Callable[[IO[bytes]], object], *, what: str) -> None:
    """Let ``write`` fill a file beside ``path``, then put that in its place; nothing is left where it fails.

    Args:
        path: Where the file goes.
        write: Writes the content.
        what: What the file is, for the error.

    Raises:
        UserError: The place cannot be written.
    """
    if os.path.isdir(path):  # false, not an error, for a name that no file system takes
        raise UserError(
            f"cannot write the {what} to {path}",
            because="it is a directory",
            fix=f"name a file, for example {path / f'{what}.html' if what == 'report' else path / 'fixed'}",
            reference="report-not-writable",
        )
    unfinished: str | None = None
    try:
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:64]}.", suffix=".part")
        with os.fdopen(descriptor, "wb") as file:
            write(file)
        os.chmod(unfinished, _mode(path))
        os.replace(unfinished, path)
        unfinished = None
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot write the {what} to {path}",
            because=(error.strerror if isinstance(error, OSError) else None) or str(error),
            fix="name a file in a directory that exists and that you may write to",
            reference="report-not-writable",
        ) from error
    finally:
        if unfinished is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished)


def _mode(path: Path) -> int:
    """The mode of the file that is replaced, else what a plain ``open`` would give: ``mkstemp`` makes 0600."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
