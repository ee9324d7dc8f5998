"""The composite action and the pre-commit hook of this repository: their commands, run as their hosts run them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.odd_rows_factory import FACTORY
from trtdiag.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program, and a command ``trtdiag`` as an installation makes one."""
    (tmp_path / "hosted.py").write_text(FACTORY)
    script = tmp_path / "bin" / "trtdiag"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trtdiag "$@"\n')
    script.chmod(0o755)
    return tmp_path


def run(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    changed = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "GITHUB_WORKSPACE": str(folder), **environment}
    return subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=changed, capture_output=True, text=True, check=False
    )


INPUTS = {"source": "hosted:build", "fail-on": "error", "arguments": "--target 8.6 -q"}


def action_command() -> tuple[str, dict[str, str]]:
    """The action's command, and the input that each of its variables stands for."""
    action = (ROOT / "action.yml").read_text()
    (command,) = re.findall(r"^ +run: (.+)$", action, re.MULTILINE)
    given = dict(re.findall(r"^ +([A-Z_]+): \$\{\{ inputs\.([\w-]+) \}\}$", action, re.MULTILINE))
    assert set(given) == set(re.findall(r"\$([A-Z_]+)", command))
    assert (
        set(given.values())
        == set(INPUTS)
        == set(re.findall(r"^  ([\w-]+):$", action.partition("runs:")[0], re.MULTILINE))
    )
    return command, given


def test_the_action_calls_the_command_with_its_inputs() -> None:
    command, given = action_command()
    values = {name: INPUTS[source] for name, source in given.items()}
    called = shlex.split(re.sub(r"\$([A-Z_]+)", lambda name: values[name[1]], command))
    assert " ".join(called) == "trtdiag analyze hosted:build --github --no-html --fail-on error --target 8.6 -q"


@pytest.mark.slow  # quick: the action calls the command with its inputs, and what that prints is read by the matcher
@pytest.mark.skipif(sys.platform == "win32", reason="the command is a script of a POSIX shell")
def test_the_action(folder: Path) -> None:
    command, given = action_command()
    summary = folder / "summary.md"
    environment = {name: INPUTS[source] for name, source in given.items()}
    done = run(command, folder, **environment, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=hosted.py,line=7,title=trtdiag GRD301::")
    assert "--target 8.6" in summary.read_text()


@pytest.mark.slow  # the quick run has the same command in the action
def test_the_pre_commit_hook(folder: Path) -> None:
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text()
    assert "pass_filenames: false" in hook
    (entry,) = re.findall(r"^  entry: (.+)$", hook, re.MULTILINE)
    done = run(f"{entry} hosted:build", folder)
    assert done.returncode == 1
    assert done.stdout.startswith("hosted.py:7: error GRD301: ")  # pre-commit shows what a failed hook says
    assert run(f"{entry} hosted:build --fail-on never", folder).returncode == 0


def test_the_problem_matcher_reads_each_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a factory in a file whose name has a colon's neighbours: digits, spaces and dots."""
    (matcher,) = json.loads((ROOT / "problem-matcher.json").read_text())["problemMatcher"]
    (pattern,) = matcher["pattern"]
    (folder / "a b.2.py").write_text(FACTORY)
    monkeypatch.chdir(folder)

    def printed(*options: str) -> str:
        with pytest.raises(SystemExit):
            main(["analyze", "a b.2.py:build", "--concise", "--no-html", *options])
        return capsys.readouterr().out

    lines = printed("--fail-on", "never").splitlines()
    found = [re.fullmatch(pattern["regexp"], line) for line in lines]
    assert lines
    assert all(found), lines
    first = found[0]
    assert first is not None
    keys = ("file", "line", "severity", "code")
    assert [first[pattern[key]] for key in keys] == ["a b.2.py", "7", "error", "GRD301"]
    assert first[pattern["message"]].startswith("guard ")
    assert printed("-q") == ""
