"""What needs a model library: skipped by name where the library is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.guards import cases
from tests.models.registry import LIBRARIES


@contextmanager
def needs_library(name: str) -> Iterator[None]:
    """Skip the test of ``name`` where a library of the zoo is missing; any other missing module is an error."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in LIBRARIES:
            raise
        pytest.skip(f"{name} needs {error.name}")


def live_cases(quick: Collection[str]) -> list[Any]:
    """Every live case of ``tests/guards``: all but ``quick`` are slow, those of a library are of the zoo."""
    found = []
    for name in cases.CASES:
        marks = [] if name in quick else [pytest.mark.slow]
        if cases.CASES[name].family in LIBRARIES:
            marks.append(pytest.mark.zoo)
        found.append(pytest.param(name, marks=marks))
    return found
