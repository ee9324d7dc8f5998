"""The page of promises names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "files.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`")


def named_tests(text: str) -> list[tuple[str, str]]:
    """File and test of each mention; of a mention without a file that of the one before."""
    found, file = [], ""
    for match in NAMED.finditer(text):
        file = match[1] or file
        found.append((file, match[2] or ""))
    return found


@pytest.mark.parametrize(("file", "name"), sorted(set(named_tests(PAGE.read_text(encoding="utf-8")))))
def test_a_promise_has_its_test(file: str, name: str) -> None:
    content = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {name}(" in content if name else "def test_" in content


def test_mentions_are_found() -> None:
    text = "`tests/a/test_b.py::test_c` and\n`::test_d`, `tests/e.py`, not `test.py` or `::`"
    assert named_tests(text) == [("tests/a/test_b.py", "test_c"), ("tests/a/test_b.py", "test_d"), ("tests/e.py", "")]
