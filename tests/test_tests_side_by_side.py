"""Tests in several forks: what they tell, what they share, and what becomes of the others when one is ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.forked_runs import run_forked

CONFTEST = """
from pathlib import Path

import pytest
from tests.side_by_side import SideBySide

HERE = Path(__file__).parent


def pytest_configure(config):
    config.addinivalue_line("markers", "budget: runs with nothing beside it")
    config.pluginmanager.register(SideBySide(2))


@pytest.fixture(scope="session")
def of_the_run():
    yield
    with (HERE / "ended").open("a") as file:
        file.write("run ")


@pytest.fixture(scope="module")
def of_the_file(of_the_run):
    with (HERE / "made").open("a") as file:
        file.write("file ")
    yield
"""
ONE = """
import warnings

import pytest


def test_passes(of_the_file, tmp_path):
    warnings.warn("mind the gap", UserWarning)


def test_fails(of_the_file):
    print("seen before")
    assert [1, 2] == [1, 3]


@pytest.mark.skip(reason="not here")
def test_skipped():
    pass


def test_shares(of_the_file, capfd):
    print("kept")
    assert capfd.readouterr().out == "kept\\n"
"""
OTHER = "def test_other(of_the_file):\n    pass\n"
ALONE = """
from pathlib import Path

import pytest


@pytest.mark.budget
def test_alone():
    assert not (Path(__file__).parent / "made").exists()
"""
ENDED = "import os\n\n\ndef test_ended():\n    os.kill(os.getpid(), 9)\n"


def _run(folder: Path, *arguments: str, **files: str) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    given = ["-p", "no:cacheprovider", "-p", "no:randomly", "-ra", f"--rootdir={folder}", *arguments]
    ended = run_forked(f"import pytest, sys; sys.exit(pytest.main({given!r}))", cwd=folder)
    return ended.returncode, ended.stdout + ended.stderr


def test_what_they_tell_and_share(tmp_path: Path) -> None:
    code, said = _run(tmp_path, one=ONE, other=OTHER, third=OTHER, waited_for=ALONE)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 5 passed, 1 skipped, 1 warning" in said
    assert "At index 1 diff: 2 != 3" in said
    assert "seen before" in said
    assert "not here" in said
    assert said.count("UserWarning: mind the gap") == 1
    assert (tmp_path / "made").read_text().split() == ["file"] * 3
    assert 1 <= len((tmp_path / "ended").read_text().split()) <= 2  # once for each process that asked for it


def test_a_process_that_is_ended_fails_the_run_and_names_the_test(tmp_path: Path) -> None:
    code, said = _run(tmp_path, a_ended=ENDED, other=OTHER)
    assert code != pytest.ExitCode.OK
    assert "the process that ran test_a_ended.py::test_ended was ended" in said


def test_the_first_failure_can_end_the_run(tmp_path: Path) -> None:
    failing = "def test_{}():\n    assert False\n"
    code, said = _run(tmp_path, "-x", **{f"n{at:02}": failing.format(at) for at in range(40)})
    assert code != pytest.ExitCode.OK
    assert "stopping after" in said
    assert 1 <= said.count("\nFAILED ") < 40
