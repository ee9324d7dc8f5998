"""What is said of a command whose process a library or the system ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.forked_runs import run_forked

ROOT = Path(__file__).resolve().parents[2]
START = """
import os, signal, sys
from trtdiag.cli.crash_reporter import last_words

steps = []
with last_words(steps.append) as step:
    for name in ("verify", "comparing at max (7 of 11): b=32\\nh=512"):
        step(name)
    assert steps[-1].startswith("comparing"), steps
"""
MODEL = """
import os
import torch
from torch.export import Dim
from trtdiag.engine import reference

reference._Reference.{where} = lambda *_: os.abort()


def program():
    return torch.nn.Linear(5, 7).eval(), (torch.randn(3, 5),), {{}}, {{"input": {{0: Dim("b", min=1, max=8)}}}}
"""


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_the_step_is_named(number: signal.Signals, tmp_path: Path) -> None:
    ended = run_forked(START + f"    os.kill(os.getpid(), {int(number)})", cwd=tmp_path)
    assert ended.returncode == -number
    first, because, fix, reference = ended.stderr.strip().splitlines()[-4:]
    assert first.startswith("error: ")
    assert first.endswith("at this step: comparing at max (7 of 11): b=32 h=512")
    assert "a library crashed" in because
    assert "--no-verify" in fix
    assert reference == "  [process-ended]"


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "raise ValueError('ours')", "raise KeyboardInterrupt"])
def test_nothing_is_said_of_a_command_that_ends_by_itself(end: str, tmp_path: Path) -> None:
    ended = run_forked(START + f"    {end}", cwd=tmp_path)
    assert "process-ended" not in ended.stderr


def run_fresh(code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), str(cwd)]))
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)


# Slow: it imports torch again.  A command that starts before torch has a guard, whose words are in test_users_code.py.
@pytest.mark.parametrize("run", [run_forked, pytest.param(run_fresh, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("where", "step", "fix"),
    [
        pytest.param("load", "comparing at example (1 of", "--no-verify", marks=pytest.mark.slow),  # quick: the other
        ("build", "building the", "another --optimization-level"),
    ],
)
def test_a_library_that_crashes(
    where: str, step: str, fix: str, run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "crashes.py").write_text(MODEL.format(where=where), encoding="utf-8")
    call = "import sys; from trtdiag.cli.main import main; main(sys.argv[1:])"
    arguments = ("compile", "crashes:program", "--backend", "reference", "--no-html", "-o", "out.ep")
    ended = run(call, *arguments, cwd=tmp_path)
    assert ended.returncode == -signal.SIGABRT
    assert f"at this step: {step}" in ended.stderr
    assert fix in ended.stderr
    assert not (tmp_path / "out.ep").exists()


@pytest.mark.slow  # quick: the step of a command that is ended is named
def test_a_step_cannot_be_told_by_what_is_gone(tmp_path: Path) -> None:
    """The command goes on where the process that would speak was ended first."""
    ended = run_forked(START.replace("steps = []", f"steps = []; {BEFORE}") + GONE, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""


# A forked process has what other tests have started, too.
BEFORE = "import gc, subprocess; before = [one for one in gc.get_objects() if type(one) is subprocess.Popen]"
GONE = """
    now = [one for one in gc.get_objects() if type(one) is subprocess.Popen]
    (witness,) = [one for one in now if all(one is not other for other in before)]
    witness.kill()
    witness.wait()
    for name in range(3):
        step(f"step {name}")
"""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            'raise ImportError("libcudart.so.13: cannot open shared object file")',
            "ImportError: libcudart.so.13: cannot",
        ),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        (
            'raise ModuleNotFoundError("No module named \'torch\'", name="torch")',
            "ModuleNotFoundError: No module named",
        ),
    ],
)
def test_a_pytorch_that_cannot_be_imported_is_named(body: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(f"{body}\n")
    (tmp_path / "model.pt2").write_bytes(b"")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "trtdiag", "analyze", "model.pt2"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "error: PyTorch cannot be imported" in ended.stderr
    assert why in ended.stderr
    assert "torch-not-importable" in ended.stderr
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".txt"] == []
