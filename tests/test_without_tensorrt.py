"""The package is imported, and its commands help, where TensorRT is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

WITHOUT_TENSORRT = """
import builtins, runpy, sys
real = builtins.__import__
def refuse(name, *args, **kwargs):
    if name.split(".")[0] == "tensorrt":
        raise ModuleNotFoundError("tensorrt is blocked", name="tensorrt")
    return real(name, *args, **kwargs)
builtins.__import__ = refuse
"""


BODY = "import trtdiag; assert callable(trtdiag.analyze); sys.argv = ['trtdiag', '--help']\n"
BODY += "from trtdiag.cli.main import main; sys.exit(main())"


@pytest.mark.slow  # the quick run blocks it in test_saved_programs.py, where one interpreter answers for all imports
def test_works_where_tensorrt_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORRT + BODY], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "analyze" in done.stdout
