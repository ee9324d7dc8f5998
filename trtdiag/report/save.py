"""Reports and answers are written as all files are; what stops that is an error about them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trtdiag.errors import UserError
from trtdiag.files.atomic_write import write_whole


def write_atomically(path: Path, text: str, *, what: str = "report") -> None:
    """Write ``text`` to ``path``, whole or not at all; see ``trtdiag.files.atomic_write``.

    Args:
        path: Where the file goes.
        text: The content.
        what: What the file is, for the error.

    Raises:
        UserError: ``report-not-writable``.
    """
    content = text.encode("utf-8")
    with telling(path, what):
        write_whole(path, (content,))


_EXAMPLES = {"report": "report.html", "trace": "trace.json"}


@contextmanager
def telling(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turns what the system refuses into an error about the file that is written.

    Raises:
        UserError: ``report-not-writable``.
    """
    try:
        yield
    except OSError as error:
        fix = "name a file in a directory that exists and that you may write to, on a disk with space"
        if isinstance(error, IsADirectoryError):
            fix = f"name a file, for example {Path(path) / _EXAMPLES.get(what, 'fixed')}"
        raise UserError(
            f"cannot write the {what} to {path}",
            because=error.strerror or str(error),
            fix=fix,
            reference="report-not-writable",
        ) from error
