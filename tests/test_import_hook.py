"""What is done once a module has been imported, and that ``import trtdiag`` imports no torch."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from trtdiag.import_hook import after_import

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    importlib.invalidate_caches()
    return tmp_path


def test_acts_at_the_end_of_the_import_and_once(folder: Path) -> None:
    (folder / "watched_one.py").write_text("VALUE = 5\n")
    seen: list[int] = []
    before = list(sys.meta_path)
    after_import("watched_one", lambda: seen.append(sys.modules["watched_one"].VALUE))
    assert seen == []
    module = importlib.import_module("watched_one")
    importlib.reload(module)
    assert seen == [5]
    assert sys.meta_path == before
    assert type(module.__loader__).__name__ == type(module.__spec__.loader).__name__ == "SourceFileLoader"
    del sys.modules["watched_one"]


def test_acts_now_for_what_is_there() -> None:
    seen: list[int] = []
    after_import("sys", lambda: seen.append(1))
    assert seen == [1]


def test_a_failed_import_is_tried_again(folder: Path) -> None:
    file = folder / "watched_two.py"
    file.write_text("raise RuntimeError('not yet')\n")
    seen: list[int] = []
    after_import("watched_two", lambda: seen.append(1))
    with pytest.raises(RuntimeError, match="not yet"):
        importlib.import_module("watched_two")
    assert seen == []
    file.write_text("VALUE = 'a longer text, so that no cached bytecode fits'\n")
    importlib.invalidate_caches()
    importlib.import_module("watched_two")
    assert seen == [1]
    del sys.modules["watched_two"]


def test_two_may_watch_one_module(folder: Path) -> None:
    (folder / "watched_three.py").write_text("")
    seen: list[str] = []
    after_import("watched_three", lambda: seen.append("a"))
    after_import("watched_three", lambda: seen.append("b"))
    importlib.import_module("watched_three")
    assert sorted(seen) == ["a", "b"]
    del sys.modules["watched_three"]


def test_a_module_that_is_missing_stays_missing(folder: Path) -> None:
    after_import("watched_nowhere", lambda: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("watched_nowhere")


@pytest.mark.parametrize(
    "code",
    [
        # Slow: each imports torch again.  test_saved_programs.py has this order in the quick run.
        pytest.param("import sys, trtdiag; assert 'torch' not in sys.modules; import torch", marks=pytest.mark.slow),
        pytest.param("import torch, trtdiag", marks=pytest.mark.slow),
        pytest.param("import trtdiag.runtime.custom_op, torch, trtdiag", marks=pytest.mark.slow),
    ],
)
def test_the_op_is_there_in_any_order_of_imports(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; torch.ops.trtdiag.execute_engine.default"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
