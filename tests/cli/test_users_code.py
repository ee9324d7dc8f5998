"""A factory, an imported module and a model's forward may do anything: it ends as an error that names them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from trtdiag.cli.main import main
from trtdiag.errors import CaptureError
from trtdiag.frontend.capture import capture

ROOT = Path(__file__).resolve().parents[2]
FACTORIES = """
import os, sys, threading, time
import torch
from torch.export import Dim

class Calls(torch.nn.Module):
    def __init__(self, called):
        super().__init__()
        self.called = called
    def forward(self, x):
        self.called()
        return x * 2

class Odd(BaseException):
    def __str__(self):
        raise RuntimeError("no text")

def good(called=lambda: None):
    return Calls(called), (torch.randn(3, 5),), {}, {"x": {0: Dim("n", min=1, max=13)}}

def prints():
    print("PYTHON")
    os.system("echo SHELL")
    os.write(1, b"DESCRIPTOR\\n")
    print("BEHIND", file=sys.__stdout__)
    return good(lambda: print("FORWARD"))

def exits(): sys.exit(0)
def exits_with_words(): sys.exit("enough")
def raises(): raise ValueError("planted")
def raises_oddly(): raise Odd
def leaves(): os._exit(0)
def leaves_with_1(): os._exit(1)
def aborts(): os.abort()
def hangs(): os.system("sleep 1000")
def forks():
    os.fork()
    return good()
def forks_aside():
    if os.fork() == 0:
        sys.exit(5)
    return good()
def forward_exits(): return good(lambda: sys.exit(0))
def forward_leaves(): return good(lambda: os._exit(0))
def registers():
    import atexit
    atexit.register(os._exit, 0)
    return torch.nn.ReLU(), (torch.randn(3, 5),), {}, {"input": {0: Dim("n", min=2)}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "users.py").write_text(FACTORIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "users", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def _trtdiag(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program, until the last process that has its streams is gone."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    command = [sys.executable, "-m", "trtdiag", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def _in_process(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("factory", "reference", "words"),
    [
        ("exits", "code-exited", "sys.exit(0) at users.py:"),
        ("exits_with_words", "code-exited", "sys.exit('enough')"),
        ("raises", "factory-failed", "ValueError: planted (users.py:"),
        ("raises_oddly", "factory-failed", "Odd (users.py:"),
        ("forward_exits", "code-exited", "sys.exit(0) at users.py:"),
        ("Calls", "factory-failed", "because: missing a required argument: 'called'\n"),
    ],
)
def test_what_raises_is_named(
    factory: str, reference: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _in_process("analyze", f"users:{factory}", "--no-html", "--json", "-") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"[{reference}]" in err
    assert words in err
    assert sorted(folder.glob("trtdiag-crash*")) == []


# Quick: a factory; --import goes the same way.
@pytest.mark.parametrize("body", ["raise ValueError('planted')", "import sys; sys.exit(0)", "def f(:", "1 / 0"])
@pytest.mark.parametrize("how", ["factory", pytest.param("--import", marks=pytest.mark.slow)])
def test_a_module_that_cannot_be_imported(
    body: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"broken_{abs(hash((body, how)))}"  # not imported before
    (tmp_path / f"{name}.py").write_text(body)
    monkeypatch.chdir(tmp_path)
    source = [f"{name}:build"] if how == "factory" else ["nowhere.pt2", "--import", name]
    assert _in_process("analyze", *source, "--no-html") == 2
    err = capsys.readouterr().err
    assert f"the import of '{name}'" in err
    places = re.findall(r"\(([^()]+):\d+\)", err)
    assert places in ([], [f"{name}.py"]), "the user's line, or none"
    assert "[code-exited]" in err if "exit" in body else "failed" in err


def test_the_api_says_the_same(folder: Path) -> None:
    for factory, reference in (("exits", "code-exited"), ("raises_oddly", "factory-failed")):
        with pytest.raises(CaptureError) as raised:
            capture(f"users:{factory}")
        assert raised.value.reference == reference


def test_what_a_factory_prints_stays_out_of_a_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _in_process("analyze", "users:prints", "--no-html", "--json", "-") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["schema"].startswith("trtdiag-report/")
    assert "PYTHON" in err
    assert "FORWARD" in err


# An imported module needs no torch, which takes seconds to import; the factories of a real run are below.
# Quick: an abort, and code that takes too long.
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the process is watched where it can fork")
@pytest.mark.parametrize(
    ("body", "reference"),
    [
        pytest.param("import os; os._exit(0)", "code-ended-process", marks=pytest.mark.slow),
        ("import os; os.abort()", "code-ended-process"),
        pytest.param("import os; os.closerange(3, 1000); os._exit(0)", "code-ended-process", marks=pytest.mark.slow),
        pytest.param("import os; os.fork()", "code-forked", marks=pytest.mark.slow),
        ("import os; os.system('sleep 1000')", "code-took-too-long"),
        pytest.param("while True: pass", "code-took-too-long", marks=pytest.mark.slow),
    ],
)
def test_what_ends_the_process_is_named(body: str, reference: str, tmp_path: Path) -> None:
    (tmp_path / "users.py").write_text(body)
    limit = "1" if reference == "code-took-too-long" else "100"
    done = _trtdiag(tmp_path, "analyze", "nowhere.pt2", "--import", "users", "--factory-limit", limit)
    assert done.returncode == 2, done.stderr
    assert f"[{reference}]" in done.stderr
    assert "the import of 'users'" in done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".pyc") in (
        ["__pycache__", "users.py"],
        ["users.py"],
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the process is watched where it can fork")
@pytest.mark.parametrize(
    "command", [("analyze", "--no-html"), ("compile", "--no-html"), ("fix-dims",), ("verify",)], ids=" ".join
)
@pytest.mark.parametrize(
    ("factory", "reference"),
    [
        ("leaves", "code-ended-process"),
        ("leaves_with_1", "code-ended-process"),
        ("aborts", "code-ended-process"),
        ("hangs", "code-took-too-long"),
        ("forks", "code-forked"),
        ("exits", "code-exited"),
    ],
)
def test_no_command_passes_by_a_factory(
    command: tuple[str, ...], factory: str, reference: str, folder: Path, compiled: Path
) -> None:
    source = (str(compiled), "--model", f"users:{factory}") if command[0] == "verify" else (f"users:{factory}",)
    done = _trtdiag(folder, *command, *source, "--factory-limit", "20" if factory == "hangs" else "200", "--json", "-")
    assert done.returncode == 2, done.stderr
    assert f"[{reference}]" in done.stderr
    assert f"the factory 'users:{factory}'" in done.stderr
    assert done.stdout == ""
    assert sorted(folder.glob("*.ep")) == []


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "users.py").write_text(FACTORIES)
    done = _trtdiag(folder, "compile", "users:good", "--backend", "reference", "--no-html", "-o", "good.ep")
    assert done.returncode == 0, done.stderr
    return folder / "good.ep"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the process is watched where it can fork")
def test_bench_does_not_pass_by_a_factory(folder: Path, compiled: Path) -> None:
    done = _trtdiag(folder, "bench", str(compiled), "--model", "users:leaves", "--rounds", "1")
    assert done.returncode == 2
    assert "[code-ended-process]" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the process is watched where it can fork")
def test_prints_exits_and_codes_of_a_real_run(folder: Path) -> None:
    done = _trtdiag(folder, "analyze", "users:prints", "--no-html", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"].startswith("trtdiag-report/")
    assert {"PYTHON", "SHELL", "DESCRIPTOR", "BEHIND", "FORWARD"} <= set(done.stderr.split())
    # A copy that ends itself is what multiprocessing does, too.
    assert _trtdiag(folder, "analyze", "users:forks_aside", "--no-html").returncode == 0
    # The code was told before anything that is registered for the end could give another one.
    assert _trtdiag(folder, "analyze", "users:registers", "--no-html").returncode == 1
    done = _trtdiag(folder, "analyze", "users:forward_leaves", "--no-html")
    assert done.returncode == 2
    assert "at this step: export" in done.stderr


def _alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_first_process_ends_both(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "users.py").write_text("import os, time; print(os.getpid(), flush=True); time.sleep(1000)")
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    command = [sys.executable, "-m", "trtdiag", "analyze", "nowhere.pt2", "--import", "users"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        working = int(first.stderr.readline())
        assert working != first.pid
        first.send_signal(number)
        rest = first.stderr.read()
    assert first.returncode == -number
    assert rest == ""
    for _ in range(100):  # 10 s: the system ends it after the first is gone
        if not _alive(working):
            return
        time.sleep(0.1)
    os.kill(working, signal.SIGKILL)
    pytest.fail("it goes on")


@pytest.mark.slow  # quick: what ends the process is named
def test_a_program_that_calls_the_command_goes_on_once(tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        from trtdiag.cli.main import main
        for arguments in (["--version"], ["explain"]):
            try:
                main(arguments)
            except SystemExit as ended:
                print("ended with", ended.code, flush=True)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=True,
    )
    first, *rest = done.stdout.splitlines()
    assert first.startswith("trtdiag, version")
    assert rest == ["ended with 0", "ended with 2"]
