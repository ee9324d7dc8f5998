"""Segments that AOTInductor compiles: saved by several threads at once, with code of their own for the usual sizes."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from trtdiag.engine.inductor import compile_segment, package, runner
from trtdiag.errors import EngineBuildError

USUAL = ((4, 3),)


def _segment() -> ExportedProgram:
    torch.manual_seed(5)
    module = nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.LayerNorm(5))
    return torch.export.export(module, (torch.randn(2, 3),), dynamic_shapes=({0: Dim("rows", min=1, max=64)},))


@pytest.mark.slow  # quick: test_code_for_the_usual_sizes_is_beside_that_for_all
def test_segments_are_saved_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.export.save refuses beside another: "Refusing to stomp on existing FakeTensor reducer"."""
    segments = [torch.export.export(nn.Linear(3, size), (torch.randn(2, 3),)) for size in (1, 2, 5, 7)]
    saving, most, save = [0], [0], torch.export.save

    def counted(*args: Any) -> None:
        saving[0] += 1
        most[0] = max(most[0], saving[0])
        time.sleep(0.02)  # so that others come meanwhile
        save(*args)
        saving[0] -= 1

    monkeypatch.setattr(torch.export, "save", counted)
    monkeypatch.setattr(compile_segment, "_compile", lambda _, code, *_how: Path(code).write_bytes(b"code"))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda segment: compile_segment.compiled_bytes(segment, "cpu"), segments))
    assert (len(set(made)), most) == (4, [1])


@pytest.mark.parametrize("refused", [False, True])
def test_code_for_the_usual_sizes_is_beside_that_for_all(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(_segment: Path, code: Path, _threads: int, how: Any) -> None:
        if refused and "shapes" in how:
            raise EngineBuildError("no", because="no such tile", fix="x", reference="inductor-refused")
        code.write_text(str(how.get("shapes", "all")))

    monkeypatch.setattr(compile_segment, "_compile", compiled)
    told: list[str] = []
    blob = compile_segment.compiled_bytes(_segment(), "cpu", USUAL, unusual=told.append)
    assert told == (["no such tile"] if refused else [])
    plain, usual = package.Code(b"all"), package.Code(b"all", b"((4, 3),)", USUAL)
    assert package.Package.read(blob).code == (plain if refused else usual)
    # Where no size varies there is nothing that comes most.
    fixed = torch.export.export(nn.Linear(3, 2), (torch.randn(4, 3),))
    assert package.Package.read(compile_segment.compiled_bytes(fixed, "cpu", USUAL)).code == plain


@pytest.mark.parametrize(("rows", "runs"), [(1, b"all"), (3, b"all"), (4, b"usual"), (5, b"all"), (64, b"all")])
def test_code_for_the_usual_sizes_runs_at_these_alone(rows: int, runs: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(file: str, _device: int) -> Any:
        name, given = Path(file).read_bytes(), []
        return SimpleNamespace(
            get_constant_fqns=lambda: ["0.weight"],
            load_constants=lambda weights, **_: given.extend(weights.values()),
            loader=SimpleNamespace(run=lambda _inputs: [name, given[0]]),
        )

    monkeypatch.setattr(runner, "_loaded", loaded)
    made = package.Package(package.Place.here("cpu"), _segment(), package.Code(b"all", b"usual", USUAL))
    code = runner.CompiledCode(made, torch.device("cpu"))
    name, weight = code([torch.randn(rows, 3)])
    assert name == runs
    assert weight is code([torch.randn(4, 3)])[1]  # in memory once


@pytest.mark.parametrize("last", [False, True])
def test_convolutions_with_channels_last_are_compiled_so(last: bool) -> None:
    module = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Conv2d(5, 2, 1))
    if last:
        module.to(memory_format=torch.channels_last)
    segment = torch.export.export(module, (torch.randn(2, 3, 7, 9),))
    assert compile_segment._layout(segment) == ({"force_layout_optimization": True} if last else {})


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="AOTInductor needs a C++ compiler")
def test_both_codes_agree_with_the_segment() -> None:
    segment = _segment()
    made = package.Package.read(compile_segment.compiled_bytes(segment, "cpu", USUAL))
    assert made.code.shapes == USUAL
    code = runner.CompiledCode(made, torch.device("cpu"))
    for rows in (2, 4, 5, 64):
        x = torch.randn(rows, 3)
        # Sums of 3 and 5 numbers in another order.
        torch.testing.assert_close(code([x])[0], segment.module()(x), rtol=1e-5, atol=1e-6)
