"""What is shown while something long runs: only to a person, and never as markup."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from trtdiag.cli.progress import progress_bar, step_line

Shown = Callable[[], AbstractContextManager[Callable[[str], None]]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("shown", [progress_bar, step_line])
def test_a_log_gets_nothing(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with shown() as step:
        step("export 1: as asked")
    assert stream.getvalue() == ""


def test_a_person_sees_each_step_with_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with step_line() as step:
        for words in ("export 1: as asked", "export 2: with [red]h[/red] \x1b]0;title\x07\nand w"):
            step(words)
    text = stream.getvalue()
    assert "export 2: with [red]h[/red] \\x1b]0;title\\x07 and w" in text
    assert "]0;title\x07" not in text.replace("\\x1b]0;title\\x07", "")
