"""``optimize="latency"``: what stays with PyTorch beside engines is compiled where that is faster, and agrees."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import trtdiag
from tests.compiling.staying_ops import ALL, FASTER, MIXED, NONE, Picks, timed
from trtdiag.analysis.backend_times import Optimization
from trtdiag.engine.inductor import compile_segment, package
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.manifest_text import manifest_from_text, manifest_to_text
from trtdiag.graph.values import NodeReader
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.partition.pytorch_segments import pytorch_segments, uncompiled
from trtdiag.pipeline import build, compile_pytorch_segments
from trtdiag.pipeline.compare import compared
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.compile_pytorch_segments import _Choice, _Way
from trtdiag.pipeline.state import State
from trtdiag.report.compile_text import ending_text
from trtdiag.verification.facts import Verification

OPTIONS = CompileOptions("8.6", "reference", partition=PartitionOptions(min_segment_ops=0), optimize="latency")
COMPILE = compile_segment._compile
SIZES = (1, 7, 33)


def _picks() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Any], Any]:
    torch.manual_seed(11)
    return Picks().eval(), (torch.randn(9, 6),), {}, ({0: Dim("rows", min=1, max=33)},)


@cache
def _program() -> ExportedProgram:
    module, args, kwargs, dims = _picks()
    return export(module, args, kwargs, dynamic_shapes=dims)


@pytest.fixture
def op_by_op(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled, which takes half a minute: segments run op by op, as where their code does not fit."""
    monkeypatch.setattr(compile_segment, "_compile", lambda _segment, code, *_: code.write_bytes(b"no code"))
    monkeypatch.setattr(package.Place, "differences", lambda *_: ("the machine is another",))
    warnings.filterwarnings("ignore", "a segment that AOTInductor compiled runs op by op")


def _agrees(program: Any) -> None:
    module = _picks()[0]
    for rows in SIZES:
        for x in (torch.randn(rows, 6), torch.full((rows, 6), 100.0), torch.full((rows, 6), -100.0)):
            for own, expected in zip(program(x), module(x), strict=True):
                assert own.dtype == expected.dtype
                torch.testing.assert_close(own, expected)


def _stays(state: State) -> list[Manifest]:
    return [node.manifest for node in state.pytorch_segment_calls()]


@pytest.mark.usefixtures("op_by_op")
class TestChoosing:
    def test_faster_code_is_called_and_saved(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        timed(monkeypatch, FASTER, {"": 10.0, ALL: 7.0, NONE: 8.0})
        state = compile_in_stages(_program(), OPTIONS)
        assert state.verified.passed
        assert [each.backend for each in state.compiled.manifests].count("reference") == len(state.converted)
        picked, manifest = _stays(state)
        assert len(picked.counts) == 1  # how many rows are kept
        assert {port.dtype for port in manifest.outputs} == {torch.float64, torch.int64, torch.bool}
        assert not manifest.counts
        assert manifest_from_text(manifest_to_text(manifest)) == manifest
        found = state.optimization
        assert found is not None
        assert len(found.pytorch_segments) == 2
        for row in found.pytorch_segments:
            assert (row.eager_ms, row.compiled_ms, row.compiled) == (2.0, 1.0, True)
            assert row.why == "faster; the whole program takes 7 ms instead of 10"
        assert [whole.name for whole in found.wholes if not whole.why_not] == [ALL]
        assert not any("earlier compilation" in note for note in state.notes)
        path = tmp_path / "stays.pt2"
        trtdiag.save(state.compiled, path)
        _agrees(trtdiag.load(path))
        _agrees(torch.export.load(path).module())

    def test_the_program_without_engines_is_compiled_beside_the_search(self, monkeypatch: pytest.MonkeyPatch) -> None:
        timed(monkeypatch, FASTER, {"": 10.0, ALL: 7.0, NONE: 3.0})
        heard: list[str] = []

        def code(segment: Path, file: Path, *_: Any) -> None:
            assert segment.exists()
            heard.append("compiled")
            file.write_bytes(b"no code")

        monkeypatch.setattr(compile_segment, "_compile", code)
        compiled = []
        for at_once in (1, 4):
            for module in (build, compile_pytorch_segments):
                monkeypatch.setattr(module, "compiled_at_once", lambda _state, most=at_once: most)
            heard.clear()
            state = compile_in_stages(_program(), replace(OPTIONS, verify=False), progress=heard.append)
            assert state.optimization is not None
            assert [whole.name for whole in state.optimization.wholes if not whole.why_not] == [NONE]
            first_times = next(index for index, each in enumerate(heard) if "reference 1 ms" in each)
            compiled.append((heard[:first_times].count("compiled"), heard.count("compiled")))
        (searched, every), (beside, same) = compiled
        assert (beside, same) == (searched + 2, every)  # code for all sizes, and for the usual ones

    def test_what_is_not_faster_stays_eager_with_the_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        timed(monkeypatch, {"eager": 1.0, "compiled": 1.5}, {"": 10.0, ALL: 1.0, NONE: 9.9})
        state = compile_in_stages(_program(), replace(OPTIONS, verify=False))
        assert state.optimization is not None
        assert [(row.compiled, row.why) for row in state.optimization.pytorch_segments] == [
            (False, "it is not faster")
        ] * 2
        assert not state.pytorch_segments
        assert {each.backend for each in state.compiled.manifests} == {"reference"}
        assert {each.name: each.why_not for each in state.optimization.wholes}[
            NONE
        ] == "9.9 ms instead of 10, less than 2% faster"

    @pytest.mark.parametrize(
        ("name", "kinds"),
        [pytest.param(NONE, ["inductor"], marks=pytest.mark.slow), (MIXED, ["reference", "inductor"])],
    )
    @pytest.mark.slow  # quick: what is faster is called, what is not stays eager
    def test_other_engines_may_become_one_segment_with_what_stays(
        self, name: str, kinds: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        timed(monkeypatch, FASTER, {"": 10.0, ALL: 7.0, NONE: 8.0, name: 3.0})
        state = compile_in_stages(_program(), OPTIONS)
        assert [each.backend for each in state.compiled.manifests] == kinds
        assert len(state.converted) == kinds.count("reference")
        assert state.optimization is not None
        assert [whole.name for whole in state.optimization.wholes if not whole.why_not] == [name]
        _agrees(state.compiled)

    @pytest.mark.slow  # quick: engines left out, below, where a comparison fails, too
    def test_what_does_not_agree_stays_eager(self, monkeypatch: pytest.MonkeyPatch) -> None:
        timed(monkeypatch, FASTER, {"": 10.0, ALL: 7.0, NONE: 11.0})

        def unlike(state: State, *rest: Any, **more: Any) -> Verification:
            found = compared(state, *rest, **more)
            return replace(found, results=()) if state.pytorch_segments else found

        monkeypatch.setattr("trtdiag.pipeline.compile.compared", unlike)
        state = compile_in_stages(_program(), OPTIONS)
        assert state.optimization is not None
        assert [row.why for row in state.optimization.pytorch_segments] == ["it does not agree with the original"] * 2
        assert {each.backend for each in state.compiled.manifests} == {"reference"}

    def test_engines_left_out_are_not_replaced_in_part(self) -> None:
        state = compile_in_stages(_program(), replace(OPTIONS, verify=False, optimize="none"))
        state = replace(state, optimization=Optimization({}, "the CPU", (), ()), kinds=())
        other = replace(state, notes=("the same with fewer engines",))
        stays = [SimpleNamespace(index=index, gain_ms=1.0, why="") for index in range(2)]

        def segments(base: State) -> Any:
            return SimpleNamespace(
                state=base,
                notes=(),
                made=lambda taken: replace(base, pytorch_segments=tuple(str(each.index) for each in taken)),
                faster=lambda: stays,
                told=lambda _: (),
            )

        def verified(made: State) -> State:  # one segment agrees, both do not
            return replace(made, verification=SimpleNamespace(passed=len(made.pytorch_segments) < 2))  # type: ignore[arg-type]

        for base, taken in ((state, ("0",)), (other, ())):
            ways = [_Way("fewer engines", segments(base), list(stays))]  # type: ignore[arg-type]
            choice = _Choice(state, segments(state), ways, None, torch.device("cpu"))  # type: ignore[arg-type]
            choice._times = lambda found=ways[0]: setattr(found, "time_ms", 3.0) or 10.0  # type: ignore[method-assign]
            assert choice.made(verified).pytorch_segments == taken

    @pytest.mark.slow  # quick: a way that a block lacks is not taken for it, in test_latency.py
    def test_what_crashes_the_compiler_stays_eager(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compile_segment, "_compile", COMPILE)
        monkeypatch.setattr(compile_segment, "_PROCESS", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        state = compile_in_stages(_program(), replace(OPTIONS, verify=False))
        assert state.optimization is not None
        assert len(state.optimization.pytorch_segments) == 2
        for row in state.optimization.pytorch_segments:
            assert not row.compiled
            assert "crashes with SIGSEGV" in row.why


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="AOTInductor needs a C++ compiler")
def test_compiled_code_agrees_with_sizes_that_data_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    timed(monkeypatch, FASTER, {"": 10.0, ALL: 7.0, NONE: 8.0})
    state = compile_in_stages(_program(), OPTIONS)
    assert state.verified.passed
    assert len(_stays(state)) == 2
    trtdiag.save(state.compiled, tmp_path / "stays.pt2")
    _agrees(trtdiag.load(tmp_path / "stays.pt2"))


def test_the_last_line_counts_compiled_segments() -> None:
    console = Console(file=StringIO(), width=200)
    console.print(ending_text((), 0, "model_trt.pt2", 1))
    assert isinstance(console.file, StringIO)
    told = "compiled: model_trt.pt2, 1 segment of PyTorch compiled by AOTInductor, no engine\n"
    assert console.file.getvalue() == told


def test_attention_without_dropout_is_not_random() -> None:
    class Attends(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = nn.functional.scaled_dot_product_attention(x, x, x)
            return y.relu() + torch.rand_like(y)

    exported = torch.export.export(Attends(), (torch.randn(1, 2, 3, 4),))
    found = pytorch_segments(exported.graph, (), "cpu", {}, NodeReader())
    assert [segment.work_ops for segment in found.segments] == [2]
    assert [each.op for each in uncompiled(found)] == ["aten.rand_like.default", "aten.add.Tensor"]
