"""Writing a report: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from trtdiag.errors import UserError


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` through a file beside it, so that a reader never sees half a report.

    Raises:
        UserError: The place cannot be written.
    """
    if os.path.isdir(path):  # false, not an error, for a name that no file system takes
        raise UserError(
            f"cannot write the report to {path}",
            because="it is a directory",
            fix=f"name a file, for example {path / 'report.html'}",
            reference="report-not-writable",
        )
    unfinished: str | None = None
    try:
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:64]}.", suffix=".part")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(unfinished, _mode(path))
        os.replace(unfinished, path)
    except (OSError, ValueError) as error:
        if unfinished is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished)
        raise UserError(
            f"cannot write the report to {path}",
            because=(error.strerror if isinstance(error, OSError) else None) or str(error),
            fix="name a file in a directory that exists and that you may write to",
            reference="report-not-writable",
        ) from error


def _mode(path: Path) -> int:
    """The mode of the file that is replaced, else what a plain ``open`` would give: ``mkstemp`` makes 0600."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
