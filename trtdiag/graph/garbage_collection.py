"""Stretches of work that Python's collector of cyclic garbage stays out of."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave cyclic garbage alone.

    For work on captured programs: one is a million small objects, every full collection walks all of them, and facts,
    being values, make no cycles.  On 12,000 nodes one collection took longer than any stage.  And for recordings of
    CUDA graphs: what lets go of an engine's memory meanwhile spoils them.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
