"""``trtdiag sweep`` before any work: help, options, and what is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from trtdiag.cli.sweep import _STEPS, GROUPS, _given, sweep_command
from trtdiag.errors import PlatformError, TrtdiagError, UserError
from trtdiag.fleet.facts import STEPS
from trtdiag.fleet.options import BACKENDS, FORMATS, SweepOptions
from trtdiag.fleet.tables import require_parquet


def error_of(*arguments: str) -> TrtdiagError:
    done = CliRunner().invoke(sweep_command, [*arguments])
    assert isinstance(done.exception, TrtdiagError), done.output
    return done.exception


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.pt2").write_bytes(b"no program")
    return tmp_path


def test_every_option_is_in_a_group() -> None:
    named = [name for _, names in GROUPS for name in names]
    assert len(named) == len(set(named))
    assert {param.name for param in sweep_command.params} - {"sources"} == {*named} - {"verbose", "debug"} | {
        param.name for param in sweep_command.params if param.name in ("verbose", "debug")
    }


def test_the_words_of_the_help_are_those_of_the_options() -> None:
    from trtdiag.cli.sweep import _FORMATS, BACKENDS as told

    assert (_STEPS, _FORMATS, tuple(told)) == (STEPS, FORMATS, BACKENDS)


def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    error = error_of("net.pt2")
    assert isinstance(error, PlatformError)
    assert "pip install 'trtdiag[fleet]'" in error.fix


def test_without_pyarrow_parquet_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert error_of("net.pt2", "--parquet").reference == "pyarrow-not-installed"
    with pytest.raises(PlatformError, match="pyarrow"):
        require_parquet()
    assert not (here / "sweep").exists()


@pytest.mark.parametrize(
    ("arguments", "reference"),
    [
        (["missing.pt2"], "sweep-source-unknown"),
        (["net.pt2", "--steps", "analyse"], "wrong-option"),
        (["net.pt2", "--target", "1.2"], "unknown-target"),
        (["net.pt2", "--gpu", "sm89", "--target", "11.4"], "sweep-gpus"),
        (["net.pt2", "--compare", "nowhere"], "sweep-not-readable"),
        (["net.pt2", "--folder", "."], "sweep-folder"),
        (["net.pt2", "--format", "pdf"], "wrong-option"),
    ],
)
def test_what_is_wrong_is_told_before_the_work(arguments: list[str], reference: str) -> None:
    assert error_of(*arguments).reference == reference


def test_options_are_those_of_the_line_then_of_the_configuration() -> None:
    rest: dict[str, Any] = {param.name: None for param in sweep_command.params}
    rest |= dict.fromkeys(("steps", "target", "precision", "gpu", "gpu_type", "format", "keep_in_torch"), ())
    rest |= {"keep_fp32": (), "tactic_sources": (), "steps": ("analyze,compile",), "min_segment_ops": 3}
    config = {"target": "10.16", "min-segment-ops": 9, "tf32": True, "ignore": ["GRD"]}
    found = SweepOptions(**_given(config, rest, ("TYP",), ()))
    assert (found.steps, found.targets, found.select, found.ignore) == (
        ("analyze", "compile"),
        ("10.16",),
        ("TYP",),
        ("GRD",),
    )
    assert found.options == {"min_segment_ops": 3, "tf32": True}


def test_python_names_the_argument_that_is_wrong() -> None:
    import trtdiag

    with pytest.raises(UserError, match="time_limit_s cannot be -1"):
        trtdiag.sweep("net.pt2", time_limit_s=-1)
    with pytest.raises(UserError, match="options: there is no option 'portabel'"):
        trtdiag.sweep(["net.pt2"], options={"portabel": True})
