"""Shells complete commands and options; the script is printed, or written to where the shell looks."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import trtdiag
from trtdiag.analysis import registry
from trtdiag.cli.main import main
from trtdiag.convert.registry import converters


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "SHELL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


PLACES = {
    "bash": ".local/share/bash-completion/completions/trtdiag",
    "zsh": ".zfunc/_trtdiag",
    "fish": ".config/fish/completions/trtdiag.fish",
}


@pytest.mark.parametrize("shell", PLACES)
def test_what_is_printed_is_what_is_installed(shell: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", shell) == 0
    script = capsys.readouterr().out
    assert "_TRTDIAG_COMPLETE" in script
    for _ in range(2):  # again in its own place
        assert run("completion", shell, "--install") == 0
        assert (home / PLACES[shell]).read_text() == script.removesuffix("\n")
        assert f"written: {home / PLACES[shell]}\nnext: " in capsys.readouterr().out


def test_the_shell_is_that_of_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/usr/local/bin/fish")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
    assert run("completion", "--install") == 0
    assert (home / "settings" / "fish" / "completions" / "trtdiag.fish").exists()
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert run("completion") == 2
    assert "$SHELL is '/bin/tcsh'" in capsys.readouterr().err


def test_the_help_says_that_the_shell_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", "--help") == 0
    assert "Usage: trtdiag completion [OPTIONS] [SHELL]\n" in capsys.readouterr().out


@pytest.mark.parametrize(("typed", "found"), [("an", "analyze"), ("analyze --try", "--try-build")])
def test_a_shell_that_asks_is_answered(
    typed: str, found: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_TRTDIAG_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"trtdiag {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    assert run() == 0
    assert f"plain,{found}" in capsys.readouterr().out.splitlines()


RULES = [f"SYM20{number}" for number in range(1, 8)]


def answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    monkeypatch.setenv("_TRTDIAG_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["trtdiag", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert run() == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("explain", "SYM"), [f"plain,{rule}" for rule in RULES]),
        (("explain", "sym201"), ["plain,SYM201"]),
        (("explain", "guard-breaks"), ["plain,guard-breaks-range"]),
        (("analyze", "model.pt2", "--select", "GRD,TYP402"), ["plain,GRD,TYP402"]),
        (("ops", "log_soft"), ["plain,log_softmax"]),
        (("compile", "model.pt2", "--keep-in-torch", "aten.log_soft"), ["plain,aten.log_softmax"]),
        (("compile", "model.pt2", "--target", "8"), ["plain,8.6"]),
        (("analyze", "models/u"), ["file,models/u"]),
        (("sweep", "one.pt2", "tw"), ["file,tw"]),
        (("explain", "NOSUCH"), [""]),
    ],
)
def test_values_are_completed(
    words: tuple[str, ...], found: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answers(monkeypatch, capsys, *words) == found


def test_every_rule_and_every_op_with_a_converter_is_among_the_candidates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    every = {entry.id for entry in registry.rules()}
    for listed in (every, {entry.name for entry in registry.rules()}):
        begins = {word[0] for word in listed}
        assert {each[6:] for word in begins for each in answers(monkeypatch, capsys, "explain", word)} >= listed
    own = {str(op).rpartition(".")[0] for op, entry in converters().items() if entry.built_in}
    assert {each[6:] for each in answers(monkeypatch, capsys, "ops", "aten.")} == {
        op for op in own if op[:5] == "aten."
    }


BIN = Path(sys.executable).parent
TYPED = {"trtdiag an": "analyze", "trtdiag explain SYM20": "SYM201", "trtdiag analyze --try": "--try-build"}


def installed(shell: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Completions of a shell where it looks for them, with the command on the path."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed on this machine")
    if not (BIN / "trtdiag").exists():
        pytest.skip("the command is not installed beside this Python")
    monkeypatch.setenv("PYTHONPATH", str(Path(trtdiag.__file__).parents[1]))
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    assert run("completion", shell, "--install") == 0
    return home / PLACES[shell]


@pytest.mark.parametrize("shell", [*PLACES])
@pytest.mark.slow  # each key starts the command; what it answers is among the quick tests
def test_the_shell_itself_completes(shell: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = installed(shell, home, monkeypatch)
    for typed, found in TYPED.items():
        if shell == "zsh":
            assert found in in_zsh(home, typed), typed
            continue
        words = typed.split()
        script = {
            "bash": f"source {place}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; "
            f'_trtdiag_completion trtdiag; printf "%s\\n" "${{COMPREPLY[@]}}"',
            "fish": f"complete -C '{typed}'",  # reads what was installed by itself
        }[shell]
        told = subprocess.run([shell, "-c", script], capture_output=True, text=True, timeout=60, check=False)
        assert found in [line.split("\t")[0] for line in told.stdout.splitlines()], f"{typed}: {told}"


def in_zsh(home: Path, typed: str) -> str:
    """What an interactive zsh shows behind a Tab, with the lines in its .zshrc that the command asks for."""
    rc = "fpath+=~/.zfunc; autoload -Uz compinit && compinit -u; PROMPT='>>> '; setopt auto_list; unsetopt list_beep\n"
    (home / ".zshrc").write_text(rc)
    process, screen = pty.fork()
    if process == 0:
        os.environ.update(TERM="dumb", HOME=str(home))
        os.execvp("zsh", ["zsh", "-i"])
    shown = b""
    try:
        shown += until(screen, b">>> ", 30)
        os.write(screen, f"{typed}\t".encode())
        shown += until(screen, b"\n", 30, least=len(typed))
        os.write(screen, b"\t")
        shown += until(screen, b"no such end", 5)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(screen)
    return shown.decode("utf-8", "replace")


def until(screen: int, end: bytes, seconds: float, least: int = 0) -> bytes:
    """What the terminal shows until the end comes, behind the echo of what was typed, or nothing more does."""
    shown, stops = b"", time.monotonic() + seconds
    while time.monotonic() < stops and end not in shown[least:]:
        if select.select([screen], [], [], 0.2)[0]:
            try:
                shown += os.read(screen, 4096)
            except OSError:  # it ended
                break
    return shown
