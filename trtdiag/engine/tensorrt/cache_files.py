"""Files that builds and runs share, and that are made again where they cannot be used: timings, compiled kernels."""

from __future__ import annotations

import logging
from pathlib import Path

from trtdiag.errors import UserError
from trtdiag.files.atomic_write import write_whole
from trtdiag.files.bounded_read import read_whole, reason

_MOST_BYTES = 1 << 30


def cache_content(path: Path) -> bytes:
    """The file's bytes, none where it is missing."""
    try:
        return read_whole(path, _MOST_BYTES)
    except FileNotFoundError:
        return b""


def read_cache(path: Path, kind: str) -> bytes:
    """The same of a cache that the user named.

    Raises:
        UserError: ``timing-cache``, ``runtime-cache`` where there is something else than a file that can be read.
    """
    try:
        return cache_content(path)
    except OSError as error:
        raise UserError(
            f"the {kind} cache {path} cannot be read",
            because=reason(error),
            fix=f"name a file in {kind}_cache, which is made where it is missing",
            reference=f"{kind}-cache",
        ) from error


def write_cache(path: Path, content: bytes) -> None:
    """Replace the file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (content,), durable=False)


def not_kept(logger: logging.Logger, what: str, path: Path, error: OSError) -> None:
    """Say in the log that a cache could not be written, which costs time later and nothing else."""
    logger.warning("%s are not kept in %s: %s", what, path, reason(error))
