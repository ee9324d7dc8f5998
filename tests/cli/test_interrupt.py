"""Ctrl-C while an engine is built that cannot be stopped: the command ends at once all the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, threading, time
import trtdiag.compiling
from tests.compiling.programs import mlp
from trtdiag.cli.main import main
from trtdiag.engine import builds
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

builds._GRACE_S = 0.1
trtdiag.compiling.get_backend = lambda name: Long()
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
