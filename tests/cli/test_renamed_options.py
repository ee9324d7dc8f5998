"""Options under their old names, and that no option means two things."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from trtdiag.cli.commands import cli
from trtdiag.cli.main import main
from trtdiag.cli.renamed_options import RenamedOption

RENAMED = {
    ("verify", "--against"): "--model",
    ("bench", "--report"): "--add-to-report",
    ("fix-dims", "--force"): "--overwrite",
}


def _ended(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    return int(ended.value.code or 0)


def _options(command: str) -> dict[str, click.Option]:
    found = cli.commands[command].params
    return {name: each for each in found if isinstance(each, click.Option) for name in each.opts}


def test_the_table_has_every_renamed_option() -> None:
    found = {
        (command, each.old): name
        for command in cli.commands
        for name, each in _options(command).items()
        if isinstance(each, RenamedOption)
    }
    assert found == RENAMED


@pytest.mark.parametrize(("command", "old"), RENAMED)
def test_an_old_name_is_taken_with_a_warning(
    command: str, old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    new = RENAMED[command, old]
    value = () if _options(command)[new].is_flag else ("missing.pt2",)
    assert _ended(command, "missing.ep", old, *value) == 2
    as_before = capsys.readouterr().err
    assert f"warning: {old} is now called {new} in this command" in as_before
    assert _ended(command, "missing.ep", new, *value) == 2
    as_now = capsys.readouterr().err
    assert "warning" not in as_now
    assert as_before.partition("\n")[2].replace(old, new) == as_now
    assert _ended(command, "missing.ep", old, *value, "-q") == 2
    assert "warning" not in capsys.readouterr().err
    assert _ended(command, "missing.ep", old, *value, "--nosuch") == 2
    assert f"{old} is now called {new}" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "old"), RENAMED)
def test_help_has_the_new_name_alone(command: str, old: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ended(command, "--help") == 0
    words = capsys.readouterr().out.split()
    assert RENAMED[command, old] in words
    assert (old in words) == (old in _options(command))  # bench keeps its own --against


def test_what_stands_behind_two_dashes_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ended("verify", "--", "--against") == 2
    assert "is now called" not in capsys.readouterr().err


def test_an_option_of_several_commands_takes_the_same_in_each() -> None:
    kinds: dict[str, set[tuple[str, bool]]] = {}
    for command in cli.commands:
        for name, option in _options(command).items():
            kinds.setdefault(name, set()).add((type(option.type).__name__, option.is_flag))
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


@pytest.mark.parametrize("command", ["ops", "rules"])
def test_lists_are_given_as_json_where_a_place_says_or_printed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _ended(command, "--json") == 0
    printed = capsys.readouterr().out
    assert _ended(command, "--json", "list.json") == 0
    assert capsys.readouterr().out == ""
    assert json.loads(printed) == json.loads((tmp_path / "list.json").read_text())
    assert _ended(command, "--json", "none/list.json") == 2
    assert "none/list.json" in capsys.readouterr().err
