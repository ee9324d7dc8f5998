"""Standard output that is full, closed, or a pipe that nobody reads: said once or in silence, never exit code 0."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path

import click
import pytest
import torch
from torch.export import export, save

from tests.harness.rows import thinned
from trtdiag.cli.commands import cli
from trtdiag.cli.main import main
from trtdiag.cli.streams import StandardOutput
from trtdiag.errors import UserError
from trtdiag.fleet.case_run import CaseRun
from trtdiag.fleet.cases import cases_of
from trtdiag.fleet.digests import Digests
from trtdiag.fleet.facts import SweepProgram
from trtdiag.fleet.options import SweepOptions
from trtdiag.fleet.store import prepared

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")


class Doubles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("printed")
    save(export(Doubles(), (torch.randn(3, 5),)), folder / "m.pt2")
    (folder / "error.log").write_text("Constraints violated (n)!\n  - You marked n as dynamic, specialized to 3.\n")
    options = ("--backend", "reference", "--refittable", "--no-html")
    _ended("compile", "m.pt2", *options, "-o", "c.ep", "-q", folder=folder)
    _ended("analyze", "m.pt2", "--json", "m.json", "--no-html", "-q", folder=folder)
    _swept(folder)
    return folder


def _swept(folder: Path) -> None:
    """All that a sweep of the program does, so that the command has nothing to run, and needs no Ray."""
    root = prepared(folder / "sweep")
    before = Path.cwd()
    os.chdir(folder)
    try:
        (case,) = cases_of([SweepProgram("m.pt2", "m.pt2")], SweepOptions(), Digests(root / "digests.json"))
    finally:
        os.chdir(before)
    case = replace(case, program=replace(case.program, source=str(folder / "m.pt2")))
    CaseRun(root, case, frozenset(step.key for step in case.steps), lambda _key: None).run()


def _ended(*arguments: str, folder: Path) -> int:
    before = Path.cwd()
    os.chdir(folder)
    try:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
    finally:
        os.chdir(before)
    return int(ended.value.code or 0)


PRINTING = {
    "analyze": ["m.pt2", "--no-html"],
    "analyze as JSON": ["analyze", "m.pt2", "--no-html", "--json", "-"],
    "compile": ["m.pt2", "--no-html", "--backend", "reference", "-o", "o.ep"],
    "verify": ["c.ep", "--model", "m.pt2"],
    "rebuild": ["c.ep"],
    "refit": ["c.ep", "--weights", "m.pt2", "--no-verify", "-o", "r.ep"],
    "bench": ["c.ep", "--rounds", "1", "--model", "m.pt2"],
    "fix-dims": ["error.log"],
    "sweep": ["m.pt2"],
    "export-triton": ["c.ep", "models", "--name", "m", "--force"],
    "help of a plan": ["export-engine", "--help"],  # there are no plans without TensorRT
    "report": ["m.json", "--no-html"],
    "report as SARIF": ["report", "m.json", "--no-html", "--sarif", "-"],
    "explain": ["GRD301"],
    "rules": [],
    "ops": [],
    "ops as JSON": ["ops", "--json"],
    "completion": ["bash"],
    "help": ["--help"],
    "help of a command": ["compile", "--help"],
}
LINES = [[*([] if " " in name or name == "help" else [name]), *rest] for name, rest in PRINTING.items()]


def test_every_command_is_here() -> None:
    assert set(cli.commands) <= {line[0] for line in LINES}


@contextmanager
def _printing_to(stream: object) -> Iterator[None]:
    before = sys.stdout
    sys.stdout = stream  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout = before


@full
# Quick: the ends and one between; all write through the same stream.
@thinned("line", LINES, ids=PRINTING, every=10)
def test_a_full_device_is_told(line: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as device, _printing_to(device):
        code = _ended(*line, folder=folder)
    told = capsys.readouterr().err
    assert code == 2, told
    assert "cannot write to standard output\n  because: No space left on device" in told
    assert told.count("error: ") == 1


@posix
# Quick: the ends and one between; all write through the same stream.
@thinned("line", LINES, ids=PRINTING, every=10)
def test_a_pipe_that_nobody_reads_is_not_told(
    line: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w", encoding="utf-8") as pipe, _printing_to(pipe):
        code = _ended(*line, folder=folder)
    assert capsys.readouterr().err == ""
    assert code == 141


# Quick: the ends and one between; all write through the same stream.
@thinned("line", LINES, ids=PRINTING, every=10)
def test_closed_output_is_told(line: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with _printing_to(None):
        code = _ended(*line, folder=folder)
    told = capsys.readouterr().err
    if "--help" in line:  # click prints nothing where there is no standard output
        assert code in (0, 2)
        return
    assert code == 2
    assert "because: it is closed" in told


def test_quiet_commands_need_no_standard_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with _printing_to(None):
        assert _ended("analyze", "m.pt2", "--no-html", "-q", folder=folder) == 0
    assert capsys.readouterr().err == ""


def test_a_terminal_without_a_width_gets_everything(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for line, told in (["analyze", "m.pt2", "--no-html"], "No findings"), (["analyze", "nosuch"], "there is no file"):
        monkeypatch.setenv("COLUMNS", "0")
        with pytest.raises(SystemExit):
            main(line)
        printed = capsys.readouterr()
        assert told in printed.out + printed.err


def test_formats_are_utf8_on_any_terminal() -> None:
    reads, writes = os.pipe()
    with open(writes, "w", encoding="ascii", errors="backslashreplace") as narrow:
        stream = StandardOutput(narrow)
        stream.write_utf8('{"name": "größe"}')
        stream.write("größe")
        stream.flush()
    with open(reads, "rb") as got:
        first, _, rest = got.read().partition(b"}")
    assert json.loads((first + b"}").decode("utf-8")) == {"name": "größe"}
    assert rest == b"gr\\xf6\\xdfe"


def test_a_stream_answers_what_printers_ask() -> None:
    stream = StandardOutput(StringIO())
    assert not stream.isatty()
    assert stream.write("") == 0
    with pytest.raises(TypeError):
        stream.write(b"")  # type: ignore[arg-type]
    with pytest.raises(UserError):
        StandardOutput(None).write("a")
    closed = StandardOutput(None)
    closed.flush()
    assert closed.encoding == "utf-8"
    click.echo("a", file=stream)  # type: ignore[arg-type]


# Quick: a device that is full and a reader that goes; the other ends in this process, above.
@posix
@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("> /dev/full", 2),
        pytest.param(">&-", 2, marks=pytest.mark.slow),
        ("| true", 141),
        pytest.param("2>&-", 2, marks=pytest.mark.slow),
        pytest.param("", 2, marks=pytest.mark.slow),
    ],
)
def test_the_process_itself(how: str, code: int, tmp_path: Path) -> None:
    """What Python and the system still write when it ends."""
    if "full" in how and not Path("/dev/full").exists():
        pytest.skip("only Linux has a device that is always full")
    arguments = "analyze nowhere.pt2 --nosuch" if how in ("2>&-", "") else "--help"
    wait = "sleep 0.5; " if how == "| true" else ""  # the reader is gone by then
    line = f"exec 3> code; ({wait}{sys.executable} -m trtdiag {arguments}; echo code $? >&3) {how}"
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (tmp_path / "code").read_text() == f"code {code}\n", done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stdout == ""
