"""The timing cache: a file of what TensorRT measured, which builds share."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Lock
from typing import Any

from trtdiag.engine.tensorrt.cache_files import cache_content, not_kept, read_cache, write_cache

_LOGGER = logging.getLogger("trtdiag.tensorrt.timings")
_MERGING = Lock()
"""Builds of this process that end at once add to the file one after the other.  Of two processes one may win, which
costs the other's measurements and nothing else: the file is replaced as a whole."""


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
    with _MERGING:
        try:
            there = config.create_timing_cache(cache_content(path))
            # Entries that both have are the file's; a file of another GPU or version is not combined with.
            merged = there if there is not None and there.combine(own, False) else own
            write_cache(path, bytes(merged.serialize()))
        except OSError as error:
            not_kept(_LOGGER, "timings", path, error)
