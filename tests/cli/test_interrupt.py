"""Ctrl-C at any moment: the command ends at once with 130, and says nothing that the user did not do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

import pytest

from tests.harness.rows import thinned
from trtdiag.cli import main
from trtdiag.engine import parallel_builds

PROGRAM = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import trtdiag.pipeline.compile
from tests.compiling.programs import mlp
from trtdiag.cli.main import main
from trtdiag.engine import parallel_builds
from trtdiag.engine.backend import get_backend

class Long:
    name, device = "reference", "cpu"
    def __getattr__(self, name):
        return getattr(get_backend("reference"), name)
    def build(self, *_):
        print("building", flush=True)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(60)

def build():
    return mlp()

parallel_builds._GRACE_S = 0.1
trtdiag.pipeline.compile.get_backend = lambda name: Long()
if __name__ == "__main__":
    main(["compile", "program:build", "--no-html"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself Ctrl-C there")
def test_ctrl_c_ends_the_command_with_130(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    root = str(Path(__file__).parents[2])
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([root, str(tmp_path)]))
    command = [sys.executable, "-c", PROGRAM]
    child = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    line = child.stdout.readline()
    begun = time.monotonic()
    _, told = child.communicate(timeout=120)
    assert line == "building\n", told
    assert child.returncode == 130, told
    assert "TensorRT is still building" in told
    assert time.monotonic() - begun < 50  # the build itself takes 60 s
    assert list(tmp_path.glob("*.ep")) == []


# Sends the signal when a module is looked for: from the first of our own to those deep inside torch.
AT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts tests in the background ignores it for them
first = os.getpid()
class At:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            for one in {"first": [first], "working": [os.getpid()], "both": [os.getpid(), first]}[sys.argv[2]]:
                os.kill(one, signal.SIGINT)
sys.meta_path.insert(0, At())
from trtdiag.cli.main import main
main(sys.argv[3:])
"""
MODULES = (
    "trtdiag.cli.supervised_process",
    "trtdiag.cli.commands",
    "click",
    "rich.console",
    "trtdiag.cli.rules",
    "torch",
    "torch.version",
    "trtdiag.analysis.registry",
)


def _interrupted(module: str, who: str, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", AT, module, who, *arguments],
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2])),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself Ctrl-C there")
# Quick: the ends and each third of what is imported.
@thinned(
    ("module", "who"),
    [*((module, "both") for module in MODULES), ("click", "first"), ("torch", "working")],
    every=3,
)
def test_ctrl_c_during_imports_is_silent(module: str, who: str, tmp_path: Path) -> None:
    done = _interrupted(module, who, ["rules"], tmp_path)
    assert done.returncode == 130, done.stderr
    assert done.stderr == ""
    assert done.stdout == ""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself Ctrl-C there")
@pytest.mark.parametrize(
    "module", ["numpy", "torch._dynamo", "sympy", "torch.export._trace", "trtdiag.pipeline.analyze", "z3"]
)
def test_ctrl_c_during_the_imports_of_a_run_is_silent(module: str, tmp_path: Path) -> None:
    (tmp_path / "users.py").write_text(
        "import torch\ndef build():\n    return torch.nn.ReLU(), (torch.randn(3, 5),), {}, None\n"
    )
    done = _interrupted(module, "both", ["analyze", "users:build"], tmp_path)
    assert done.returncode == 130, done.stderr
    assert done.stderr == ""
    assert list(tmp_path.glob("*.html")) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent Ctrl-C there")
@pytest.mark.parametrize("after_s", [0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
def test_ctrl_c_at_any_moment(after_s: float, tmp_path: Path) -> None:
    """A run that was not at its end by then says nothing; whenever that is on this machine."""
    (tmp_path / "users.py").write_text(
        "import torch\ndef build():\n    return torch.nn.ReLU(), (torch.randn(3, 5),), {}, None\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-m", "trtdiag", "compile", "users:build", "--backend", "reference", "-q"],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2])),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(after_s)
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    _, told = run.communicate(timeout=300)
    assert run.returncode in (0, 130), told
    assert told == ""
    assert list(tmp_path.glob("*.part")) == []


def test_little_is_imported_before_ctrl_c_is_answered() -> None:
    """What stands before the ``try`` of main: an interrupt there is Python's to print."""
    code = "import sys; before = {*sys.modules}; import trtdiag.cli.main; print(*sorted({*sys.modules} - before))"
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import os, sys; sys.path.insert(0, {root!r}); {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = {"trtdiag", "trtdiag.cli", "trtdiag.cli.main", "trtdiag.import_hook"}
    assert {*done.stdout.split()} - {"__future__"} == ours, done.stderr


def test_a_build_that_nobody_waits_for_is_told_when_the_command_leaves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, codes = Event(), list[int]()
    monkeypatch.setattr(parallel_builds, "_BUILDING", [ended])
    monkeypatch.setattr(os, "_exit", codes.append)
    main._leave(None)
    assert codes == [130]
    assert "TensorRT is still building" in capsys.readouterr().err
    ended.set()
    main._leave(None)
    assert codes == [130]
