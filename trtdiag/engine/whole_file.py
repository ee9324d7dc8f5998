"""A file that other programs see as the old one or as the whole new one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

UNFINISHED = ".part"
"""The suffix of files that are being written; one that a killed program left behind is read by nobody."""


def write_whole(path: Path, parts: Iterable[bytes | bytearray | memoryview]) -> None:
    """Write a file in one step, as other programs see it.

    It is not forced to the disk: what reads it knows a damaged one.

    Raises:
        OSError: The system refuses; ``path`` is as it was.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:64]}.", suffix=UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
