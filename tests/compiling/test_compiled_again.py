"""A compiled program is compiled again: its engines stay, and what it left to PyTorch may get engines of its own."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from tests.runtime.compiling import compiled_program
from trtdiag.analysis.fallbacks import FallbackGroup
from trtdiag.artifact.rebuild import rebuild
from trtdiag.cli.main import main
from trtdiag.engine.backend import get_backend
from trtdiag.errors import UserError
from trtdiag.frontend.capture import capture
from trtdiag.options import CompileOptions
from trtdiag.partition.intrinsic_limits import ENGINE_OP
from trtdiag.pipeline.bench import bench
from trtdiag.report.saved import read_report
from trtdiag.runtime.custom_op import EXECUTE_ENGINE
from trtdiag.runtime.earlier_engines import refuse_on_other_devices
from trtdiag.targets import get_target


class Blocks(nn.Module):
    """Two halves; the first compilation takes one of them, whichever it is told to leave."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 5), nn.Tanh())
        self.last = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3), nn.Sigmoid())

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.first(x)
        return {"y": y, "z": self.last(y)}


@cache
def _exported() -> torch.export.ExportedProgram:
    return torch.export.export(Blocks().eval(), (torch.randn(4, 5),), dynamic_shapes=({0: Dim("n", min=1, max=64)},))


def _agrees(program: object, sizes: tuple[int, ...] = (1, 7, 64)) -> None:
    for size in sizes:
        x = torch.randn(size, 5)
        for name, value in Blocks().eval()(x).items():
            torch.testing.assert_close(program(x)[name], value, rtol=1e-5, atol=1e-6)  # type: ignore[operator]


# Quick: the new engine comes before it.
@pytest.fixture(scope="module", params=["first", pytest.param("last", marks=pytest.mark.slow)])
def half(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with an engine for one half: the new one comes after it or before it."""
    folder = tmp_path_factory.mktemp("half")
    torch.export.save(_exported(), folder / "m.pt2")
    made = trtdiag.compile(
        str(folder / "m.pt2"), backend="reference", keep_in_torch=[request.param], min_segment_ops=1, verify=False
    )
    assert len(made.manifests) == 1
    path = folder / "half.ep"
    trtdiag.save(made, path)
    return path


def test_what_stayed_gets_an_engine_beside_those_that_are_there(half: Path, tmp_path: Path) -> None:
    before = trtdiag.load(half)
    again = trtdiag.compile(str(half), backend="reference", min_segment_ops=1)
    assert len(again.manifests) == 2
    assert before.manifests[0] in again.manifests
    _agrees(again)
    trtdiag.save(again, tmp_path / "whole.ep")
    _agrees(trtdiag.load(tmp_path / "whole.ep"))
    assert trtdiag.verify(tmp_path / "whole.ep").passed  # with half.ep, which it was compiled from
    assert trtdiag.verify(tmp_path / "whole.ep", against=_exported()).passed
    third = trtdiag.compile(tmp_path / "whole.ep", backend="reference", min_segment_ops=1)
    assert sorted(each.network_hash for each in third.manifests) == sorted(e.network_hash for e in again.manifests)
    _agrees(third)


def test_networks_of_all_engines_are_kept(half: Path, tmp_path: Path) -> None:
    again = trtdiag.compile(str(half), backend="reference", min_segment_ops=1, portable=True, verify=False)
    assert len(again.networks) == 2
    trtdiag.save(again, tmp_path / "a.ep")
    made = rebuild(trtdiag.load(tmp_path / "a.ep"), get_backend("reference"), CompileOptions(), get_target("10.16"))
    assert {manifest.target for manifest in made.manifests} == {"10.16"}
    _agrees(made)


def _code(arguments: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


def test_engines_that_are_there_are_no_ops_that_stay_in_pytorch(
    half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _code(["analyze", str(half), "--min-segment-ops", "1", "--no-html"]) == 0
    said = capsys.readouterr().out
    assert re.search(r": (\d+) of \1 ops? in 1 engine, beside 1 engine of an earlier compilation\n", said)
    assert f"next: trtdiag compile {half}" in said
    again = trtdiag.compile(str(half), backend="reference", min_segment_ops=1, verify=False)
    trtdiag.save(again, tmp_path / "whole.ep")
    assert _code(["analyze", str(tmp_path / "whole.ep"), "--no-html"]) == 0
    said = capsys.readouterr().out
    assert ": 2 engines of an earlier compilation, and nothing to build\n" in said
    assert f"next: trtdiag verify {tmp_path / 'whole.ep'}\n" in said


@pytest.mark.slow  # quick: each command by itself in tests/cli, what stayed gets an engine above
def test_every_command_takes_a_compiled_file_or_says_why_not(
    half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, json = tmp_path / "whole.ep", tmp_path / "whole.json"
    page = ["--no-html"]
    made = ["compile", str(half), "-o", str(whole), "--backend", "reference", "--min-segment-ops", "1", *page]
    assert _code([*made, "--json", str(json)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "in 1 engine, by the reference backend" in said
    assert "it is an engine of an earlier compilation, and stays one" in said
    assert "1 engine of an earlier compilation" in said
    assert _code(["verify", str(whole)]) == 0
    assert _code(["analyze", str(half), *page]) == 0
    assert "no converter" not in capsys.readouterr().out
    assert _code(["fix-dims", str(half)]) == 0
    assert _code(["report", str(whole)]) == 2
    assert "--json wrote" in capsys.readouterr().err
    report = read_report(json)
    report.check_networks([manifest.network_hash for manifest in trtdiag.load(whole).manifests])


@pytest.mark.slow
def test_a_program_compiled_again_is_timed(half: Path) -> None:
    again = trtdiag.compile(str(half), backend="reference", min_segment_ops=1, verify=False)
    found = bench(again, ["eager"], model=_exported(), rounds=1)
    assert all(way.ms for way in found.results[0].ways)


@pytest.mark.slow  # quick: test_what_stayed_gets_an_engine_beside_those_that_are_there
def test_nothing_is_left_to_do(tmp_path: Path) -> None:
    whole = trtdiag.compile(_exported(), backend="reference", verify=False)
    trtdiag.save(whole, tmp_path / "whole.ep")
    again = trtdiag.compile(str(tmp_path / "whole.ep"), backend="reference")
    assert again.manifests == whole.manifests
    _agrees(again)


def test_an_engine_is_no_op_without_a_converter(half: Path) -> None:
    assert str(EXECUTE_ENGINE) == ENGINE_OP
    facts = trtdiag.analyze(half).analysis.partition
    assert facts is not None
    groups: tuple[FallbackGroup, ...] = (*facts.groups, *facts.kept)
    assert not groups


def test_engines_for_another_device_are_refused() -> None:
    program = compiled_program(capture(_exported())).exported_program
    refuse_on_other_devices(program, "cpu")
    with pytest.raises(UserError, match="engines for cpu, and the others would be for cuda") as caught:
        refuse_on_other_devices(program, "cuda")
    assert caught.value.reference == "engines-elsewhere"
