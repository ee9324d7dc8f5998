"""Files that are not what they should be, for every command that reads one: exit code 2 at once, with the file's name.

`.pt2` and `.ep` files have tests of their own (`tests/frontend`), as has the engine cache.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sample_tables import TABLE

import trtdiag
from tests.harness.rows import thinned
from tests.whole_file_kinds import NOT_FILES, NOT_TEXTS
from trtdiag.cli.main import main
from trtdiag.engine.tensorrt.cache_files import give_timings, keep_timings
from trtdiag.errors import ArtifactError, UserError
from trtdiag.report.fix_module import may_write
from trtdiag.report.saved import read_report

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "report" / "golden-report.json"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.json").write_text(GOLDEN.read_text())
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says that ends with exit code 2, on one line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = capsys.readouterr()
    assert ended.value.code == 2, told.err
    assert "Traceback" not in told.err
    assert told.out == ""
    return " ".join(told.err.split())


READERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "report": ("odd.json", ("report", "odd.json")),
    "compare": ("odd.json", ("report", "good.json", "--compare", "odd.json", "--no-html")),
    "config": ("pyproject.toml", ("analyze", "absent.pt2")),
    "config-of-compile": ("pyproject.toml", ("compile", "absent.pt2")),
    "log": ("odd.log", ("fix-dims", "odd.log")),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", NOT_FILES)
def test_what_is_no_file_is_refused(reader: str, kind: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, command = READERS[reader]
    NOT_FILES[kind](here / name)
    told = refused(capsys, *command)
    assert name in told
    assert not list(here.glob("trtdiag-crash*"))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", NOT_TEXTS)
def test_what_is_no_text_is_refused(reader: str, kind: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, command = READERS[reader]
    (here / name).write_bytes(NOT_TEXTS[kind])
    told = refused(capsys, *command)
    assert (name if "config" not in reader or kind != "empty" else "absent.pt2") in told


@pytest.mark.parametrize("reader", READERS)
def test_a_file_without_the_right_to_read_it(
    reader: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, command = READERS[reader]
    (here / name).write_text("{}")
    really_open = os.open

    def denied(path: Any, *rest: Any, **named: Any) -> int:  # root, whom tests may run as, may read every file
        if str(path).endswith(name):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return really_open(path, *rest, **named)

    monkeypatch.setattr(os, "open", denied)
    told = refused(capsys, *command)
    assert "Permission denied" in told
    assert name in told


@pytest.mark.parametrize("kind", NOT_FILES)
def test_other_readers_refuse_what_is_no_file(kind: str, here: Path) -> None:
    place = here / "odd.programs.json"
    NOT_FILES[kind](place)
    with pytest.raises(ArtifactError, match=r"odd\.programs\.json is no table"):
        trtdiag.program_for(place, w=5)
    with pytest.raises(UserError, match="cannot read the report"):
        read_report(place)
    with pytest.raises(UserError, match=r"the timing cache .*odd\.programs\.json cannot be read"):
        give_timings(None, place)
    keep_timings(_Config(), place)  # says so in the log: the engine is built
    if place.is_file():
        with pytest.raises(UserError, match="exists"):
            may_write(place)


class _Config:
    """As much of a configuration of TensorRT as is asked before the file is read."""

    def get_timing_cache(self) -> None:
        return None

    def create_timing_cache(self, _content: bytes) -> None:
        pytest.fail("something was read")


def with_value(path: str, value: str) -> str:
    """The golden report with the text of a value in one place: ``findings.0.severity``."""
    body: Any = json.loads(GOLDEN.read_text())
    at, (*steps, last) = body, [int(each) if each.isdigit() else each for each in path.split(".")]
    for each in steps:
        at = at[each]
    at[last] = "HERE"
    return json.dumps(body).replace('"HERE"', value)


DAMAGED = {
    "verdict.status": ('"fine"', 'verdict.status is "fine", expected one of "error", "warning", "incomplete", "clean"'),
    "findings.0.severity": ('"fatal"', 'findings[0].severity is "fatal", expected one of "error", "warning", "info"'),
    "findings.0.fix.applicability": ('"maybe"', 'findings[0].fix.applicability is "maybe", expected one of'),
    "findings.0.places.0.source.line": ("[]", "findings[0].places[0].source.line is a list of 0, expected an integer"),
    "symbols.0.name": ("null", "symbols[0].name is null, expected a string"),
    "symbols.0.range.max": ("{}", "symbols[0].range.max is an object of 0 keys, expected an integer or null"),
    "symbols.1.profile": ("7", "symbols[1].profile is 7, expected an object or null"),
    "memory.live_bytes": ("NaN", "memory.live_bytes is NaN, which JSON does not have"),
    "dims.rows.0.state": ('"odd"', 'dims.rows[0].state is "odd", expected one of'),
    "guards.parsed.0.proof.kind": ('"faith"', 'guards.parsed[0].proof.kind is "faith", expected one of'),
    "stages.0.state": ("null", 'stages[0].state is null, expected one of "ok", "failed", "not run"'),
    "compiled": ('{"verification": null, "engines": [{"bytes": 1}]}', 'compiled.engines[0] has no key "index"'),
    "program.op_nodes": ("9" * 5000, "program.op_nodes is a number of 5,000 digits"),
    "target": ('"\\ud800"', "target has half a character"),
    "timings": ("[" * 300 + "]" * 300, "nested deeper than 100 levels"),
    "tool": ('{"name": "trtdiag", "version": "0", "version": "1"}', 'tool has the key "version" twice'),
    "schema": ('"trtdiag-report/2"', "its schema is 'trtdiag-report/2', not 'trtdiag-report/1'"),
}


# Quick: the ends and each third; all are read by one reader.
@thinned("path", DAMAGED, every=3)
def test_a_damaged_report_is_refused_with_the_place_and_what_was_expected(
    path: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value, said = DAMAGED[path]
    (here / "odd.json").write_text(with_value(path, value))
    for command in (("report", "odd.json"), ("report", "good.json", "--compare", "odd.json", "--no-html")):
        told = refused(capsys, *command)
        assert "cannot read the report odd.json" in told
        assert said in told, told


CONFIGS = {
    "tool = 3": "tool must be a table because: {} has 3",
    "[tool]\ntrtdiag = 'x'": "tool.trtdiag must be a table because: {} has 'x'",
    "[[tool.trtdiag]]\ntarget = 'x'": "tool.trtdiag must be a table",
    "[tool.trtdiag]\ntarget = 3": "[tool.trtdiag] target must be a string because: {} has 3",
    "[tool.trtdiag]\nignore = ['A', 2]": "[tool.trtdiag] ignore must be a list of strings",
    "[tool.trtdiag]\nworkspace-mib = 99999999999": "workspace-mib must be a number from 0 to 2,147,483,647",
    "[tool.trtdiag]\nbuild-jobs = 0x" + "f" * 9000: "[tool.trtdiag] build-jobs must be a number from 0",
    "[tool.trtdiag]\nbuild-jobs = " + "9" * 5000: "cannot read {}",
    "[tool.trtdiag]\nengine-cache = '~nosuchuser/x'": "[tool.trtdiag] engine-cache must be a place",
    "[tool.trtdiag]\nengine-cache = ''": "[tool.trtdiag] engine-cache must be a place because: {} has '': it is empty",
    '[tool.trtdiag]\ntiming-cache = "a\\u0000b"': "[tool.trtdiag] timing-cache must be a place",
    "[tool.trtdiag]\n" + "'" + "k" * 5000 + "' = 1": "[tool.trtdiag] has no key",
    "a = " + "[" * 5000 + "]" * 5000: "cannot read {} because: its values are nested too deeply",
    "a = " + "{a = " * 5000 + "1" + "}" * 5000: "cannot read {} because: its values are nested too deeply",
    "tool.trtdiag = [": "cannot read {}",
}


@pytest.mark.parametrize("text", CONFIGS, ids=range(len(CONFIGS)))
def test_a_config_that_cannot_be_used_names_file_and_key(
    text: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = here / "pyproject.toml"
    place.write_text(text)
    told = refused(capsys, "analyze", "absent.pt2")
    assert CONFIGS[text].format(place) in told, told
    assert str(place) in told
    assert len(told) < 1000


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomli, of Python 3.10, takes no keys of so many parts")
def test_a_config_below_another_counts_and_one_without_the_table_says_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "pyproject.toml").write_text("tool = 3")
    (here / "below").mkdir()
    (here / "below" / "pyproject.toml").write_text("[" + ".".join("a" * 5000) + "]\n[tool.other]\nx = 1")
    monkeypatch.chdir(here / "below")
    assert "absent.pt2" in refused(capsys, "analyze", "absent.pt2")


class _Stream(io.RawIOBase):
    def isatty(self) -> bool:
        return False

    @property
    def buffer(self) -> io.RawIOBase:
        return self

    def read(self, _most: int = -1) -> bytes:
        raise IsADirectoryError(21, "Is a directory")


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (None, "it is closed"),
        (_Stream(), "Is a directory"),
        (io.TextIOWrapper(io.BytesIO(b" \n")), "it is empty"),
        (io.TextIOWrapper(io.BytesIO(b"\0" * 64)), "it has null bytes"),
    ],
    ids=["closed", "directory", "empty", "null-bytes"],
)
def test_a_standard_input_without_a_text(
    stream: object, why: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", stream)
    assert why in refused(capsys, "fix-dims", "-")


@pytest.mark.parametrize("text", ["x" * 5000, "a = " + "b " * 3000, "nul\0 = 1", "half\ud800 = 1"])
def test_a_text_that_could_be_no_name_is_no_crash(text: str) -> None:
    with pytest.raises(UserError):
        trtdiag.fix_dims(text)


def table(change: Callable[[dict[str, Any]], object]) -> str:
    body = json.loads(json.dumps(TABLE))
    change(body)
    return json.dumps(body)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (table(lambda body: body.update(sizes=None)), "sizes is null, expected a list"),
        (table(lambda body: body.pop("programs")), 'has no key "programs"'),
        (table(lambda body: body["programs"][0].update(takes=3)), "programs[0].takes is 3, expected a string"),
        (table(lambda body: body["sizes"][0].pop("name")), 'sizes[0] has no key "name"'),
        (table(lambda body: body["programs"][0].update(file="../../etc/passwd")), "no name of a file beside it"),
        (table(lambda body: body["programs"][0].update(file="..")), "no name of a file beside it"),
        (table(lambda body: body["programs"][0].update(file="/etc/passwd")), "no name of a file beside it"),
        (table(lambda body: body["programs"][0].update(file="")), "expected something in it"),
        (table(lambda body: body["programs"][0].update(takes="__import__('os')")), "is no table of programs"),
        (table(lambda body: body["programs"][0].update(takes="w > z")), "names a size that the table does not have"),
        ("[" * 5000, "nested deeper"),
    ],
)
def test_a_damaged_table_of_programs_is_refused(text: str, why: str, tmp_path: Path) -> None:
    place = tmp_path / "fixed.programs.json"
    place.write_text(text)
    with pytest.raises(ArtifactError, match="is no table of programs") as caught:
        trtdiag.program_for(place, w=5)
    assert why in str(caught.value)


def test_a_good_table_is_read(tmp_path: Path) -> None:
    place = tmp_path / "fixed.programs.json"
    place.write_text(json.dumps(TABLE))
    assert trtdiag.program_for(place, w=5) == tmp_path / "fixed.ep"
