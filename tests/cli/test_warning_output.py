"""Warnings of torch and of the model reach the terminal with --verbose alone; those about options always."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trtdiag.cli.main import main
from trtdiag.cli.warning_output import told_warnings

FACTORY = """
import logging, warnings
import torch
from torch.export import Dim

def build():
    warnings.warn("the model warns")
    logging.getLogger("torch.export").error("torch logs an error")
    torch.ops.aten.stft(torch.randn(9), 4, return_complex=True)  # its kernel prints a warning
    return torch.nn.LSTM(4, 6), (torch.randn(5, 3, 4),), {}, {"input": {1: Dim("batch", min=2, max=9)}}
"""
LOGGED = "torch logs an error"
PRINTED = "A window was not provided"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "warning_factory.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def warned(recwarn: pytest.WarningsRecorder, *options: str, factory: str = "warning_factory:build") -> list[str]:
    """The texts of the warnings that go their usual way, to stderr outside of a test."""
    with pytest.raises(SystemExit) as ended:
        main(["analyze", factory, "--no-html", "--fail-on", "never", *options])
    assert ended.value.code == 0
    return [str(warning.message) for warning in recwarn]


def logged(folder: Path, *options: str, torch_logs: str = "") -> str:
    """What a process of its own writes to stderr besides warnings, which the tests keep to themselves."""
    asked = ["analyze", "warning_factory:build", "--no-html", "--fail-on", "never", *options]
    # Not forked: torch sets its logs up once, and other tests change that.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    environment |= {"TORCH_LOGS": torch_logs} if torch_logs else {}  # torch ends in an error where it is empty
    command = [sys.executable, "-m", "trtdiag", *asked]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


@pytest.mark.usefixtures("folder")
def test_without_verbose_no_warning_of_torch_or_the_model_is_told(
    recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert warned(recwarn, "--keep-in-torch", "nosuch") == []
    assert capsys.readouterr().err.startswith("warning: --keep-in-torch nosuch has no effect")


@pytest.mark.slow  # quick: tests/cli/test_standard_output.py has quiet commands
@pytest.mark.usefixtures("folder")
def test_quiet_is_silent(recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]) -> None:
    assert warned(recwarn, "--keep-in-torch", "nosuch", "-q") == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow  # quick: the graph of an export that failed comes with verbose alone
@pytest.mark.usefixtures("folder")
def test_verbose_tells_all(recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]) -> None:
    texts = warned(recwarn, "--keep-in-torch", "nosuch", "-v")
    assert "the model warns" in texts
    assert [text for text in texts if "were assigned during export" in text]  # torch's, of an LSTM's weights
    # Torch's logs come, too: from 2.15 on its handler writes to what pytest reads.
    assert "\nwarning: --keep-in-torch nosuch has no effect" in "\n" + capsys.readouterr().err


@pytest.mark.slow  # quick: warnings of torch, which go the same way
def test_logs_of_torch_come_where_they_are_asked_for(folder: Path) -> None:
    quiet, verbose = logged(folder), logged(folder, "-v")
    assert LOGGED not in quiet
    assert LOGGED in verbose
    assert PRINTED not in quiet
    assert PRINTED in verbose
    assert LOGGED in logged(folder, torch_logs="+export")


def test_what_kernels_print_waits_for_verbose(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    level = "TORCH_CPP_LOG_LEVEL"  # torch reads it when it is imported, which the factory stands for
    monkeypatch.delenv(level, raising=False)
    (folder / "level_factory.py").write_text(
        f"import os\ndef build():\n    raise ValueError(os.environ.get('{level}'))"
    )
    for options, told in ([], "ValueError: 2"), (["-v"], "ValueError: None"):
        with pytest.raises(SystemExit):
            main(["analyze", "level_factory:build", "--no-html", *options])
        assert told in capsys.readouterr().err
    assert level not in os.environ


def test_what_other_packages_log_waits_for_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    # Where nobody set logs up this handler writes to stderr; pytest sets them up.
    handler = logging.lastResort
    assert handler is not None
    with told_warnings():
        for name in ("torchao", "trtdiag.steps"):
            handler.handle(logging.makeLogRecord({"name": name, "levelno": logging.WARNING, "msg": f"of {name}"}))
    assert capsys.readouterr().err == "of trtdiag.steps\n"


GUARDED = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum().item() > 1 else x

def build():
    return Net(), (torch.randn(5),), {}, None
"""


@pytest.mark.slow  # quick: without verbose no warning is told
def test_the_graph_of_an_export_that_failed_comes_with_verbose_alone(
    folder: Path, recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "guarded_factory.py").write_text(GUARDED)
    assert warned(recwarn, factory="guarded_factory:build") == []
    assert capsys.readouterr().err == ""
    texts = warned(recwarn, "-v", factory="guarded_factory:build")
    assert [text for text in texts if "torch.ops.aten.sum.default" in text]
