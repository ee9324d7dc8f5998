"""Shells complete commands and options; the script is printed, or written to where the shell looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtdiag.cli.main import main


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


@pytest.mark.parametrize(("typed", "found"), [("an", "analyze"), ("analyze --try", "--try-build")])
def test_a_shell_that_asks_is_answered(
    typed: str, found: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_TRTDIAG_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"trtdiag {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    assert run() == 0
    assert f"plain,{found}" in capsys.readouterr().out.splitlines()
