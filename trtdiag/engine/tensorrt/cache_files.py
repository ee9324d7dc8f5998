"""Files that builds and runs share, made again where they cannot be used: timings of TensorRT, compiled kernels."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from trtdiag.errors import UserError
from trtdiag.files.atomic_write import write_whole
from trtdiag.files.bounded_read import read_whole, reason
from trtdiag.files.unfinished import locked

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


_LOGGER = logging.getLogger("trtdiag.tensorrt.timings")
_MERGING = Lock()
"""Builds of this process that end at once add to the file one after the other."""


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While no other process adds to a file of this folder.

    Where the system cannot say that, of two one may win, which costs the other's measurements and nothing else: the
    file is replaced as a whole.
    """
    if sys.platform == "win32":  # no folder can be opened there
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        locked(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def give_timings(config: Any, path: Path) -> None:
    """Let a build know the timings of earlier ones; of another GPU or version they are left out, and written anew.

    Raises:
        UserError: ``timing-cache`` where there is something else than a file that can be read.
    """
    known = read_cache(path, "timing")  # what is no file is said before TensorRT is asked for anything
    cache = config.create_timing_cache(known)
    if cache is None or not config.set_timing_cache(cache, False):
        config.set_timing_cache(config.create_timing_cache(b""), False)


def keep_timings(config: Any, path: Path) -> None:
    """Add what a build measured to the file; what other builds added meanwhile stays.

    A file that cannot be written is only said in the log: the engine is built.
    """
    own = config.get_timing_cache()
    try:
        with _MERGING, _alone(path.parent):
            there = config.create_timing_cache(cache_content(path))
            # Entries that both have are the file's; a file of another GPU or version is not combined with.
            merged = there if there is not None and there.combine(own, False) else own
            write_cache(path, bytes(merged.serialize()))
    except OSError as error:
        not_kept(_LOGGER, "timings", path, error)
