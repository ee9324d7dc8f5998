"""The package of the tutorial about ops of one's own: its tests pass, and the page shows the very files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.pages import ROOT, blocks
from tests.harness.forked_runs import run_forked
from tests.harness.own_converters import EXAMPLE

SHOWN = ("acme_ops/__init__.py", "acme_ops/converters.py", "pyproject.toml")


def test_the_page_shows_the_files_of_the_package() -> None:
    titled = {block.title: block.text for block in blocks(ROOT / "docs" / "tutorials" / "own-ops.md") if block.title}
    assert {name: titled[name] for name in SHOWN} == {name: (EXAMPLE / name).read_text() for name in SHOWN}


@pytest.mark.slow  # quick: tests/convert/test_own_converters.py checks converters of one's own
def test_its_own_tests_pass(tmp_path: Path) -> None:
    code = """
import sys
import pytest
sys.path.insert(0, sys.argv[1])
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-c", "/dev/null", sys.argv[1] + "/tests"]))
"""
    done = run_forked(code, str(EXAMPLE), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
