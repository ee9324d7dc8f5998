"""Many small rows in one test: what pytest does around a test costs more than such a row."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

Test = Callable[..., None]
SHOWN = 20
"""Of the rows that fail."""


def each(name: str, rows: Iterable[Any], ids: Callable[[Any], str] = str) -> Callable[[Test], Test]:
    """As ``pytest.mark.parametrize(name, rows)``, in one test that takes all rows and names those that fail.

    For rows that need nothing of their own: the fixtures are those of the one test.  A row that does not apply returns;
    ``pytest.skip`` would leave out those behind it.
    """
    kept = list(rows)
    assert kept, "no rows"

    def decorated(test: Test) -> Test:
        @functools.wraps(test)
        def batch(**given: Any) -> None:
            failed: list[tuple[str, BaseException]] = []
            for row in kept:
                try:
                    test(**{name: row}, **given)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append((ids(row), error))
            if failed:
                told = [f"[{row}] {type(error).__name__}: {error}" for row, error in failed[:SHOWN]]
                many = f"{len(failed)} of {len(kept)} rows failed, the first with the traceback above:"
                raise AssertionError("\n".join([many, *told])) from failed[0][1]

        signature = inspect.signature(test)
        others = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        batch.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return batch

    return decorated


def thinned(
    names: str | tuple[str, ...],
    rows: Iterable[Any],
    every: int,
    ids: Iterable[str] | Callable[[Any], str] | None = None,
) -> pytest.MarkDecorator:
    """As ``pytest.mark.parametrize(names, rows)``, whose rows are slow but for the ends and each ``every``-th.

    For a table whose rows show one thing many times over.  What shows it in the quick run stands beside the table.
    """
    several = not isinstance(names, str)
    kept = list(rows)
    quick = {*range(0, len(kept), every), len(kept) - 1}
    marked = []
    for at, row in enumerate(kept):
        found = row if isinstance(row, ParameterSet) else pytest.param(*row) if several else pytest.param(row)
        marks = found.marks if at in quick else (*found.marks, pytest.mark.slow)
        marked.append(pytest.param(*found.values, marks=marks, id=found.id))
    return pytest.mark.parametrize(names, marked, ids=ids)
