"""Rows of one test: each is taken, and those that fail are named."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from tests.conftest import SLOW_ROWS
from tests.harness.rows import each

TAKEN: list[tuple[int, str]] = []


@pytest.mark.parametrize("letter", ["a", "b"])
@each("number", [1, 2, 3])
def test_every_row_is_taken_with_what_else_the_test_asks_for(number: int, letter: str) -> None:
    TAKEN.append((number, letter))
    if number == 3:
        assert TAKEN[-3:] == [(1, letter), (2, letter), (3, letter)]


def test_the_rows_that_fail_are_named_and_the_others_are_taken() -> None:
    taken = []

    @each("word", ["one", "two", "three", "four"])
    def rows(word: str) -> None:
        taken.append(word)
        if word == "four":
            pytest.fail("said so")
        assert len(word) == 3, f"{word} is long"

    with pytest.raises(AssertionError) as caught:
        rows()
    assert taken == ["one", "two", "three", "four"]
    text = str(caught.value)
    assert text.startswith("2 of 4 rows failed")
    assert "[three] AssertionError: three is long" in text
    assert "[four] Failed: said so" in text
    assert "[one]" not in text
    assert "three is long" in str(caught.value.__cause__)


def test_no_rows_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="no rows"):
        each("word", [])


def test_rows_left_to_the_whole_run_are_of_tests_that_there_are() -> None:
    """A row that was renamed is quick again; a test that was renamed is told here."""
    root = Path(__file__).resolve().parent.parent
    tests = sorted(tuple(row.partition("[")[0].split("::")) for row in SLOW_ROWS)
    for path, names in groupby(tests, key=lambda test: test[0]):
        text = (root / path).read_text(encoding="utf-8")
        assert [name for _, *_, name in names if f"def {name}(" not in text] == [], path
