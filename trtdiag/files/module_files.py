"""The files of modules that are not imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder


def module_files(name: str) -> Iterator[str]:
    """The files of a module and of the packages above it; none where it is not found, which importing says."""
    places: Sequence[str] | None = [os.getcwd(), *sys.path]
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        try:
            spec = PathFinder.find_spec(".".join(parts[:count]), places)
        except (ImportError, ValueError, OSError):
            return
        if spec is None:
            return
        if spec.origin is not None and spec.has_location:
            yield spec.origin
        places = spec.submodule_search_locations
