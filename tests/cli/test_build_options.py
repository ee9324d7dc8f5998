"""How engines are built: on the command line, in the file, and which of them wins."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
import torch

import trtdiag.pipeline.compile
from tests.compiling.programs import mlp, saved
from trtdiag.cli.compile import GROUPS, compile_command
from trtdiag.cli.engine_options import BUILD_OPTIONS
from trtdiag.cli.main import main
from trtdiag.engine.tensorrt.compatibility import LEVELS
from trtdiag.options import HARDWARE, CompileOptions

EVERY = {
    "--optimization-level": "2",
    "--workspace-mib": "64",
    "--tactic-sources": "JIT_CONVOLUTIONS,CUDNN",
    "--hardware-compatibility": "ampere+",
    "--engine-cache": "engines",
    "--engine-cache-mib": "7",
    "--timing-cache": "timings",
    "--build-jobs": "3",
}
FILE = """
[tool.trtdiag]
optimization-level = 1
workspace-mib = 0
tactic-sources = ["CUBLAS"]
tf32 = true
hardware-compatibility = "same-compute-capability"
version-compatible = true
engine-cache = "kept/engines"
engine-cache-mib = 9
timing-cache = "~/timings"
engine-per-gpu = true
build-jobs = 2
build-in-process = true
"""


class _SeenError(Exception):
    """Stops the compilation, with its options."""


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "model.pt2").write_bytes(saved(mlp))
    return tmp_path


def _options(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> CompileOptions:
    def seen(_source: Any, options: CompileOptions, **_: Any) -> None:
        raise _SeenError(options)

    monkeypatch.setattr(trtdiag.pipeline.compile, "compile_in_stages", seen)
    with pytest.raises(_SeenError) as caught:
        compile_command.main(["model.pt2", *arguments], standalone_mode=False)
    options = caught.value.args[0]
    assert isinstance(options, CompileOptions)
    return options


def _built_with(options: CompileOptions) -> tuple[Any, ...]:
    return tuple(getattr(options, name) for name in BUILD_OPTIONS)


def test_the_command_line_says_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [word for pair in EVERY.items() for word in pair]
    options = _options(monkeypatch, *given, "--tf32", "--version-compatible", "--engine-per-gpu", "--build-in-process")
    wanted = (
        2,
        64,
        ("JIT_CONVOLUTIONS", "CUDNN"),
        True,
        "ampere+",
        True,
        "engines",
        7,
        "timings",
        True,
        3,
        True,
    )
    assert _built_with(options) == wanted
    assert _built_with(_options(monkeypatch)) == _built_with(CompileOptions())


def test_the_file_says_everything_and_the_command_line_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "pyproject.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path / "below")
    home = os.path.expanduser("~/timings")
    kept = str(tmp_path / "kept" / "engines")  # from where the file is
    wanted = (1, 0, ("CUBLAS",), True, "same-compute-capability", True, kept, 9, home, True, 2, True)
    assert _built_with(_options(monkeypatch)) == wanted
    given = [word for pair in EVERY.items() for word in pair]
    wanted = (
        2,
        64,
        ("JIT_CONVOLUTIONS", "CUDNN"),
        True,
        "ampere+",
        True,
        "engines",
        7,
        "timings",
        True,
        3,
        True,
    )
    assert _built_with(_options(monkeypatch, *given)) == wanted


def test_options_fields_and_keys_are_the_same() -> None:
    assert set(BUILD_OPTIONS) <= {field.name for field in fields(CompileOptions)}
    assert tuple(LEVELS) == HARDWARE


def test_the_help_has_every_option_in_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    grouped = [name for _, names in GROUPS for name in names]
    own = [param.name for param in compile_command.params if isinstance(param, click.Option)]
    assert sorted(grouped) == sorted(str(name) for name in own)
    assert run("compile", "--help") == 0
    told = capsys.readouterr().out
    titles = [told.index(f"{title}:") for title, _ in GROUPS]
    assert titles == sorted(titles)
    built, after = titles[2], titles[3]
    assert all(flag in told[built:after] for flag in EVERY)
    assert told.index("--help") > told.index("Other options:") > titles[-1]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("workspace-mib = -1", "a number from 0"),
        ("engine-cache = 7", "a string"),
        ("tf32 = 'yes'", "true or false"),
        ("tactic-sources = 'CUDNN'", "a list of strings"),
        ("hardware-compatibility = 'volta'", "write one of none, ampere+, same-compute-capability"),
        ("engine-caches = 'x'", "write 'engine-cache'"),
    ],
)
def test_a_wrong_line_of_the_file_is_refused(
    line: str, wanted: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / "pyproject.toml").write_text(f"[tool.trtdiag]\n{line}\n")
    assert run("compile", "model.pt2") == 2
    assert wanted in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--optimization-level", "6"),
        ("--workspace-mib", "-1"),
        ("--build-jobs", "0"),
        ("--engine-cache-mib", "0"),
        ("--hardware-compatibility", "volta"),
    ],
)
def test_a_wrong_flag_is_refused(arguments: tuple[str, str], model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "model.pt2", *arguments) == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.slow  # quick: tests/compiling/test_cached_engines.py
def test_engines_come_from_the_cache_and_everything_says_so(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("compile", "model.pt2", "--backend", "reference", "--no-verify", "--keep-in-torch", "aten.relu")
    asked += ("--min-segment-ops", "1", "--engine-cache", "engines", "--build-jobs", "2", "--json", "out.json")
    for turn, cached in enumerate((0, 2)):
        assert run(*asked, "-o", f"{turn}.ep") == 0
        assert f"({cached} of 2 engines from the engine cache)" in capsys.readouterr().out
        body = json.loads(Path("out.json").read_text())
        assert [engine["from_cache"] for engine in body["compiled"]["engines"]] == [bool(cached)] * 2
        stage = next(stage for stage in body["stages"] if stage["name"] == "build")
        assert stage["message"] == f"{cached} of 2 engines from the engine cache"
        assert stage["message"] in Path(f"{turn}.html").read_text()
    (one, _) = sorted(Path("engines").iterdir())
    one.write_bytes(b"not an engine")
    assert run(*asked, "-o", "2.ep") == 0
    assert "(1 of 2 engines from the engine cache)" in capsys.readouterr().out
    x = torch.randn(3, 7, 5)
    outputs = [torch.export.load(f"{turn}.ep").module()(x) for turn in range(3)]
    assert all(torch.equal(output, outputs[0]) for output in outputs)
    torch.testing.assert_close(outputs[0], mlp()[0](x), rtol=1e-5, atol=1e-6)


def test_without_a_cache_nothing_is_said_of_one(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("compile", "model.pt2", "--backend", "reference", "--no-verify", "--no-html")
    assert run(*asked, "--json", "out.json") == 0
    assert "cache" not in capsys.readouterr().out
    assert json.loads(Path("out.json").read_text())["compiled"]["engines"][0]["from_cache"] is None


def test_a_cache_that_cannot_be_is_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "model.pt2", "--backend", "reference", "--engine-cache", "model.pt2") == 2
    told = capsys.readouterr().err
    assert "engine-cache-folder" in told
    assert "because: there is a file of that name" in told
