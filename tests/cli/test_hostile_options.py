"""Every option and argument of every command with values that nobody means: refused by name, never a fault of ours."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
import torch
from torch.export import Dim, export, save

from tests.random_cases import cases, some
from trtdiag.cli.commands import cli
from trtdiag.cli.main import main

# What stands where is known to work: each case puts one value in one place.
COMMANDS = {
    "analyze": ["m.pt2", "--no-html"],
    "compile": ["m.pt2", "--no-html", "--backend", "reference", "--no-verify", "-o", "o.ep"],
    "verify": ["c.ep", "--model", "m.pt2"],
    "rebuild": ["c.ep"],
    "refit": ["c.ep", "--weights", "m.pt2", "--no-verify"],
    "bench": ["c.ep", "--rounds", "1", "--model", "m.pt2"],
    "fix-dims": ["error.log"],
    # The steps are refused, after the options and before the sources: no case may start Ray.
    "sweep": ["m.pt2", "--steps", "fix-dims,verify"],
    "export-triton": ["c.ep", "models"],
    "export-engine": ["c.ep", "plans"],
    "report": ["m.json", "--no-html"],
    "explain": ["GRD301"],
    "rules": [],
    "ops": [],
    "completion": [],
}
DIGITS = "9" * 5000
EMPTY = ("", " ", "\t")
UNWRITABLE = ("a\udcff", "\ud800", "\0", "a\0b")
PLACES = ("x" * 300, f"a/{'x' * 300}/b", "é" * 200, "~nosuchuser", "~nosuchuser/x", ".", "/", "..", "/nowhere/x", "a.b")
SIZES = ("h=--5", "h=²", "h=٣", f"h={DIGITS}", f"h={'9' * 30}", "h=1e5", "h=1_0", "=3", "h=", "h", "--5", "²")
WORDS = (*EMPTY, *UNWRITABLE, *PLACES, *SIZES, ",", "=", "h==5", "nan", "inf", "-1", "0", DIGITS, ":", "a:", ":b")
WORDS = (
    *WORDS,
    "..a",
    "a..b",
    ".json",
    "-",
    "--",
    "[bold]",
    "{}",
    "%s",
    "\x1b[31m",
    "a\nb",
    "\U0001f600",
    "m.pt2",
    "True",
)
PIECES = (
    *WORDS,
    "n=3",
    "GRD",
    "aten.mul",
    "8.6",
    "opt",
    "min",
    "json",
    "html,",
    "eager,",
    "~",
    "/",
    "9",
    "\u200b",
    "'",
)


class Doubles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1


@dataclass(frozen=True)
class Case:
    command: str
    parameter: click.Parameter
    value: str

    def arguments(self) -> list[str]:
        rest = COMMANDS[self.command]
        if isinstance(self.parameter, click.Argument):
            taken = [each for each in cli.commands[self.command].params if isinstance(each, click.Argument)]
            given = [self.value if each is self.parameter else word for each, word in zip(taken, rest, strict=False)]
            return [self.command, *rest[len(taken) :], "--", *(given or [self.value])]
        return [self.command, *rest, f"{max(self.parameter.opts, key=len)}={self.value}"]

    @property
    def names(self) -> list[str]:
        """What an error may call the place."""
        return [
            *self.parameter.opts,
            *(name.upper() for name in self.parameter.opts),
            (self.parameter.name or "").upper(),
            f"[{(self.parameter.name or '').upper()}]",  # one that may be left out
            f"[{(self.parameter.name or '').upper()}]...",  # any number of them
            f"{(self.parameter.name or '').upper()}...",  # one or more
        ]


def _places() -> list[tuple[str, click.Parameter]]:
    found = []
    for name, command in cli.commands.items():
        for parameter in command.params:
            if not getattr(parameter, "is_flag", False):
                found.append((name, parameter))
    return found


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    save(export(Doubles(), (torch.randn(3, 5),), dynamic_shapes={"x": {0: Dim("n", min=1, max=13)}}), folder / "m.pt2")
    (folder / "error.log").write_text("Constraints violated (n)!\n  - You marked n as dynamic, specialized to 3.\n")
    (folder / "c.ep").write_bytes(b"no program")
    (folder / "m.json").write_text("{}")
    return folder


@pytest.fixture
def folder(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path in inputs.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _ended(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0), capsys.readouterr().err


def _check(case: Case, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    code, told = _ended(case.arguments(), capsys)
    assert code in (0, 1, 2), (case, told)
    assert "Traceback" not in told, case
    assert "trtdiag itself failed" not in told, case
    assert sorted(folder.glob("trtdiag-crash*")) == [], case
    if code == 2:
        assert told.strip(), case
    return told if code == 2 else ""


def _none_can_be_used(case: Case) -> bool:
    return case.value in EMPTY or case.value in UNWRITABLE


@pytest.mark.parametrize("command", COMMANDS)
def test_empty_and_unwritable_values_are_refused_by_name(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, parameter in _places():
        if name != command:
            continue
        for value in some((*EMPTY, *UNWRITABLE), 2):
            case = Case(command, parameter, value)
            told = _check(case, folder, capsys)
            assert any(f"'{one}'" in told for one in case.names), (case, told)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *((["compile", "m.pt2", "--opt", size], "--opt: ") for size in SIZES),
        *((["analyze", "m.pt2", "--max", size], "--max: ") for size in SIZES),
        *((["analyze", "m.pt2", "--assume", size], "--assume: ") for size in SIZES),
        *((["bench", "c.ep", "--model", "m.pt2", "--sizes", size], "--sizes: ") for size in SIZES if "=" in size),
        *((["compile", "m.pt2", "--engine-cache", place], "'--engine-cache'") for place in ("~nosuchuser", "x" * 300)),
        *((["analyze", "m.pt2", "-o", place], "'-o' / '--output'") for place in ("", ".", "/", "x" * 300)),
        *((["analyze", "m.pt2", "--json", place], "'--json'") for place in ("", "x" * 300, "~nosuchuser/a.json")),
        *(
            ([*line, "-"], "- stands for standard output")
            for line in (
                ["analyze", "m.pt2", "-o"],
                ["analyze", "m.pt2", "--trace"],
                ["compile", "m.pt2", "-o"],
                ["fix-dims", "error.log", "--write"],
            )
        ),
        *((["analyze", "m.pt2", "--import", name], "--import") for name in ("", ".", "..", ".json", "a..b", "x" * 300)),
        *((["verify", "c.ep", "--point-s", number], "'--point-s'") for number in ("nan", "inf", "-1", "²", DIGITS)),
        *((["fix-dims", "error.log", "--time-limit", number], "'--time-limit'") for number in ("nan", "inf", "0")),
        *((["analyze", "m.pt2", "--factory-limit", number], "'--factory-limit'") for number in ("nan", "inf", "0")),
        *(
            (["compile", "m.pt2", "--workspace-mib", number], "'--workspace-mib'")
            for number in (DIGITS, "9" * 30, "-1")
        ),
    ],
    ids=lambda value: value[-1][:12].encode("unicode_escape").decode() if isinstance(value, list) else None,
)
def test_what_an_option_cannot_take_is_told_by_its_name(
    arguments: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = _ended(arguments, capsys)
    assert code == 2, told
    assert words in told
    assert len(told) < 12_000  # a value of 5,000 digits stands there twice at most


def _random_cases(count: int, seed: int) -> list[Case]:
    draw = random.Random(seed)
    places = _places()
    cases = []
    for _ in range(count):
        command, parameter = draw.choice(places)
        value = "".join(draw.choices(PIECES, k=draw.choice((1, 1, 2, 3))))
        cases.append(Case(command, parameter, value))
    return cases


def _fuzzed(cases: Sequence[Case], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for case in cases:
        told = _check(case, folder, capsys)
        if _none_can_be_used(case):
            assert any(f"'{one}'" in told for one in case.names), (case, told)


def test_hostile_values(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fuzzed(_random_cases(cases(200), seed=19), folder, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_5000_hostile_values(part: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fuzzed(_random_cases(500, seed=1000 + part), folder, capsys)


@pytest.mark.skipif(sys.platform == "win32", reason="a folder that a process is in cannot be removed there")
@pytest.mark.parametrize("command", [name for name in COMMANDS if COMMANDS[name] and name != "explain"])
def test_a_working_folder_that_was_removed(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    first, *rest = COMMANDS[command]
    code, told = _ended([command, str(folder / first), *rest], capsys)
    assert code == 2
    assert "[no-working-folder]" in told


def test_a_name_that_is_no_text_reaches_the_program_as_bytes(tmp_path: Path) -> None:
    command = [sys.executable.encode(), b"-m", b"trtdiag", b"analyze", b"m\xff.pt2"]
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": root}, capture_output=True, check=False)
    assert done.returncode == 2
    assert re.search(rb"'SOURCE': it is no text in UTF-8", done.stderr)
