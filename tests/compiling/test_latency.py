"""``optimize="latency"``: which way each part of a program runs in, and that all ways agree."""

from __future__ import annotations

import math
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor.exc import InvalidCxxCompiler
from torch.export import Dim, ExportedProgram, export

import trtdiag
from tests.compiling.seed_models import decoder, instance_norm, linear, unet, wide_types
from trtdiag.benchmark.clock import Timed
from trtdiag.engine.inductor import compile_segment, package
from trtdiag.engine.profiles import usual_inputs
from trtdiag.engine.tensorrt.gpu import Gpu, Replay, Work
from trtdiag.errors import EngineBuildError, UserError
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline import latency, program_times
from trtdiag.pipeline.compare import compared
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.latency_choices import choices, least_sum, named
from trtdiag.pipeline.program_times import MOST_CUDA_GRAPHS, cuda_graphs_for_latency, replayed
from trtdiag.pipeline.state import State
from trtdiag.report.view_build import report_view
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.engine_nodes import engine_nodes
from trtdiag.runtime.segment_program import exported_part, segment_program
from trtdiag.verification.facts import Verification

OPTIONS = CompileOptions("8.6", "reference", partition=PartitionOptions(min_segment_ops=0), optimize="latency")
COMPILE = compile_segment._compile
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="AOTInductor needs a C++ compiler")


class Net(nn.Module):
    """Three modules of three ops that compute."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.InstanceNorm2d(4), nn.GELU())
        self.second = nn.Sequential(nn.Conv2d(4, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 1))
        self.third = nn.Sequential(nn.Conv2d(4, 2, 1), nn.Tanh(), nn.Conv2d(2, 2, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.second(self.first(x)))  # type: ignore[no-any-return]


def _net() -> tuple[nn.Module, tuple[torch.Tensor, ...], dict[str, Any], Any]:
    torch.manual_seed(7)
    dims = {0: Dim("batch", min=1, max=5), 2: Dim("high", min=4, max=33), 3: Dim("wide", min=4, max=31)}
    return Net().eval(), (torch.randn(2, 3, 16, 18),), {}, (dims,)


@cache
def _program() -> ExportedProgram:
    module, args, kwargs, dims = _net()
    return export(module, args, kwargs, dynamic_shapes=dims)


@pytest.fixture
def op_by_op(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled, which takes half a minute: segments run op by op, as where their code does not fit."""

    monkeypatch.setattr(compile_segment, "_compile", lambda _segment, code, *_: code.write_bytes(b"no code"))
    monkeypatch.setattr(package.Place, "differences", lambda *_: ("the machine is another",))
    warnings.filterwarnings("ignore", "a segment that AOTInductor compiled runs op by op")


def _timed(monkeypatch: pytest.MonkeyPatch, blocks: list[Mapping[str, float]], wholes: list[float]) -> None:
    """Give these times in the place of measured ones: of blocks in order, then of whole programs."""
    rows = iter(blocks)

    def told(calls: Mapping[str, Any], *_: object) -> dict[str, Timed]:
        for call in calls.values():
            call()  # each way runs
        if "0" in calls:
            return {name: Timed([took], [took]) for name, took in zip(calls, wholes, strict=True)}
        own = next(rows)
        return {name: Timed([own[name]], [own[name]]) for name in calls}

    monkeypatch.setattr(latency, "take_turns", told)


class Counts(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return x * 2


class Writes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)


class Picks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0] * 2


@pytest.mark.parametrize(("kind", "most"), [(nn.ReLU, MOST_CUDA_GRAPHS), (Counts, 0), (Writes, 0), (Picks, 0)])
def test_graphs_are_kept_of_what_can_be_recorded_whole(kind: type[nn.Module], most: int) -> None:
    exported = export(kind().eval(), (torch.randn(2, 3),), strict=False)
    lowered = compile_in_stages(exported, replace(OPTIONS, optimize="none", verify=False)).plan.lowered
    assert cuda_graphs_for_latency(lowered, "cuda") == most
    assert cuda_graphs_for_latency(lowered, "cpu") == 0


IN_TURNS = [
    {"reference": 9.0, "inductor": 1.0},
    {"reference": 1.0, "inductor": 9.0},
    {"reference": 9.0, "inductor": 1.0},
]


@pytest.mark.usefixtures("op_by_op")
class TestChoosing:
    def test_the_fastest_whole_program_is_taken(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        _timed(monkeypatch, IN_TURNS, [10.0, 7.0, 3.0])
        steps: list[str] = []
        # As many as a GPU's programs keep; here nothing can be recorded.
        monkeypatch.setattr(program_times, "cuda_graphs_for_latency", lambda *_: MOST_CUDA_GRAPHS)
        state = compile_in_stages(_program(), OPTIONS, progress=steps.append)
        assert state.compiled.options is not None
        assert state.compiled.options.cuda_graphs == MOST_CUDA_GRAPHS
        # The three blocks and the whole side by side; of the mixed program two of them.
        assert [step for step in steps if "with AOTInductor" in step] == [
            "optimize: compile 4 segments with AOTInductor"
        ]
        assert [each.backend for each in state.compiled.manifests] == ["inductor", "reference", "inductor"]
        assert state.verified.passed
        found = state.optimization
        assert found is not None
        assert [block.chosen for block in found.blocks] == ["inductor", "reference", "inductor"]
        assert [block.module for block in found.blocks] == ["first", "second", "third"]
        assert [whole.why_not for whole in found.wholes] == ["slower", "slower", ""]
        page = report_view(state.report.analysis)
        for engines in (page["compiled"]["engines"], page["partition"]["segments"]):
            assert ["code of AOTInductor" in each["summary"] for each in engines] == [True, False, True]
        assert "built by AOTInductor (2) and reference (1)" in page["compiled"]["summary"]
        assert [each["title"].partition(",")[0] for each in page["compiled"]["ways"]] == ["Whole programs", "Blocks"]
        path = tmp_path / "mixed.pt2"
        trtdiag.save(state.compiled, path)
        loaded, module = trtdiag.load(path), _net()[0]
        for shape in ((1, 3, 4, 4), (3, 3, 17, 31), (5, 3, 33, 31)):
            x = torch.randn(shape)
            # float32, sums of at most 36 terms in another order
            torch.testing.assert_close(loaded(x), module(x), rtol=1e-4, atol=1e-5)

    def test_engines_are_built_while_code_is_compiled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The code of the first block is there only when the last block's engine was asked for."""
        _timed(monkeypatch, IN_TURNS, [10.0, 7.0, 3.0])
        asked = Event()

        def compiled(_segment: Path, code: Path, *_: object) -> None:
            assert asked.wait(60)
            code.write_bytes(b"no code")

        def told(step: str) -> None:
            if step.startswith("optimize: block 3 of 3 as reference"):
                asked.set()

        monkeypatch.setattr("trtdiag.pipeline.build._cores", lambda: 4)
        monkeypatch.setattr(compile_segment, "_compile", compiled)
        state = compile_in_stages(_program(), OPTIONS, progress=told)
        assert [each.backend for each in state.compiled.manifests] == ["inductor", "reference", "inductor"]

    def test_code_for_all_sizes_alone_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def compiled(_segment: Path, code: Path, _threads: int, how: Any) -> None:
            if "shapes" in how:
                raise EngineBuildError("no", because="no such tile", fix="x", reference="inductor-refused")
            code.write_bytes(b"no code")

        monkeypatch.setattr(compile_segment, "_compile", compiled)
        _timed(monkeypatch, IN_TURNS, [10.0, 7.0, 3.0])
        state = compile_in_stages(_program(), OPTIONS)
        assert state.optimization is not None
        (note,) = state.optimization.notes
        assert note.endswith("may be slower at the sizes to tune for: no such tile")

    @pytest.mark.slow  # quick: the same of segments in PyTorch, in test_compiled_pytorch_segments.py
    def test_what_does_not_agree_or_is_hardly_faster_is_not_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _timed(monkeypatch, IN_TURNS, [10.0, 9.81, 2.0])
        refused = []

        def unlike(state: State, *rest: Any, **more: Any) -> Verification:
            found = compared(state, *rest, **more)
            if "inductor" in state.kinds:
                refused.append(state.kinds)
                return replace(found, results=())
            return found

        monkeypatch.setattr("trtdiag.pipeline.compile.compared", unlike)
        state = compile_in_stages(_program(), OPTIONS)
        assert len(refused) == 1
        assert [each.backend for each in state.compiled.manifests] == ["reference"]
        assert state.optimization is not None
        assert [whole.why_not for whole in state.optimization.wholes] == [
            "",
            "it is less than 2% faster",
            "it does not agree with the original",
        ]

    def test_a_way_that_a_block_lacks_is_not_taken_for_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compile_segment, "_compile", COMPILE)
        monkeypatch.setattr(compile_segment, "_PROCESS", "raise RuntimeError('no compiler here')")
        state = compile_in_stages(_program(), OPTIONS)
        assert [each.backend for each in state.compiled.manifests] == ["reference"]
        assert state.optimization is not None
        assert all("no compiler here" in block.refused["inductor"] for block in state.optimization.blocks)


class HostGpu(Gpu):
    """The CPU in the place of a GPU: a recording is the work itself."""

    fails = ""
    recorded = 0

    def record(self, device: torch.device, work: Work) -> Replay:
        self.recorded += 1
        if self.fails:
            raise RuntimeError(self.fails)
        return partial(work, 7)


@pytest.mark.parametrize("fails", ["", "operation not permitted when stream is capturing"])
def test_a_block_is_timed_as_it_runs_in_a_recorded_program(fails: str) -> None:
    calls: list[int] = []
    gpu = HostGpu()
    gpu.fails = fails
    call = replayed(lambda: calls.append(1), torch.device("cpu"), gpu)
    assert (gpu.recorded, len(calls)) == (1, 1)  # the first run is not recorded
    call()
    assert len(calls) == 2


def test_a_block_that_does_not_run_is_timed_itself() -> None:
    """So that the reason is told."""

    def call() -> None:
        raise RuntimeError("no kernel")

    gpu = HostGpu()
    assert (replayed(call, torch.device("cpu"), gpu), gpu.recorded) == (call, 0)


def test_auto_is_the_usual_backend_with_the_fastest_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(latency, "fastest", lambda state, *_: seen.append(state.plan.options) or state)
    compile_in_stages(_net(), CompileOptions(backend="auto", verify=False))
    assert [options.optimize for options in seen] == ["latency"]


def test_code_without_other_weights_is_refused() -> None:
    with pytest.raises(UserError, match="other weights"):
        compile_in_stages(_net(), CompileOptions("8.6", "reference", optimize="latency", refittable=True))


def test_nothing_is_compiled_for_inductor_alone() -> None:
    with pytest.raises(UserError, match="not compiled for the backend 'inductor'"):
        compile_in_stages(_net(), CompileOptions(backend="inductor"))


# Quick: a norm; the others have no form of their own.
@pytest.mark.slow  # quick: test_the_fastest_whole_program_is_taken
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(decoder, marks=pytest.mark.slow),
        pytest.param(unet, marks=pytest.mark.slow),
        instance_norm,
        pytest.param(linear, marks=pytest.mark.slow),
        pytest.param(wide_types, marks=pytest.mark.slow),
    ],
)
def test_a_segment_exported_by_itself_computes_what_its_engine_does(asked: Callable[[], Any]) -> None:
    state = compile_in_stages(asked(), CompileOptions("8.6", "reference", verify=False, partition=OPTIONS.partition))
    for one, node in zip(state.converted, engine_nodes(state.compiled.exported_program), strict=True):
        alone = segment_program(state.plan.source, one, state.plan.sizes.opt, "cpu").module()
        inputs = usual_inputs(node.manifest, "cpu")
        for own, other in zip(alone(*inputs), CACHE.get(node.manifest, node.engine)(inputs), strict=True):
            assert own.dtype == other.dtype
            torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5)  # float32, sums in another order


ROWS = [{"a": 1.0, "b": 2.0}, {"a": 5.0, "b": 1.0}, {"a": 1.0, "b": 2.0}]


@pytest.mark.parametrize(
    ("most", "expected"),
    [(0, ("b", "b", "b")), (1, ("a", "b", "b")), (2, ("a", "b", "a")), (math.inf, ("a", "b", "a"))],
)
def test_the_least_sum_with_few_changes(most: float, expected: str) -> None:
    assert least_sum(ROWS, most) == tuple(expected)


def test_a_change_that_a_missing_way_asks_for_is_made() -> None:
    assert least_sum([{"a": 1.0, "b": 9.0}, {"b": 1.0}, {"a": 1.0}], 0) == ("a", "b", "a")


def test_each_way_alone_comes_first() -> None:
    assert next(iter(choices(ROWS, ("a", "b")))) == ("a", "a", "a")
    assert ("a", "a", "a") not in list(choices([*ROWS, {"b": 1.0}], ("a", "b")))
    assert named(("a", "b", "a")) == "a and b, 2 changes"


def test_a_mix_that_is_hardly_less_than_what_came_before_is_not_built() -> None:
    """A change more has to pay, beside a way alone as beside a mix with fewer changes."""
    assert list(choices([{"a": 1.0, "b": 1.01}, {"a": 1.01, "b": 1.0}], ("a", "b"))) == [("a", "a"), ("b", "b")]
    rows = [{"a": 1.0, "b": 9.0}, {"a": 1.0, "b": 0.99}, {"a": 1.0, "b": 9.0}, {"a": 9.0, "b": 1.0}]
    assert list(choices(rows, ("a", "b"))) == [("a",) * 4, ("b",) * 4, ("a", "a", "a", "b")]
    rows[1] = {"a": 1.0, "b": 0.5}
    assert list(choices(rows, ("a", "b")))[2:] == [("a", "a", "a", "b"), ("a", "b", "a", "b")]


@pytest.mark.slow
@needs_compiler
def test_compiled_code_agrees_at_every_corner(tmp_path: Path) -> None:
    module, args, kwargs, _ = _net()
    dims = ({0: Dim("batch", min=1, max=5), 2: Dim("high", min=4, max=33), 3: Dim("wide", min=4, max=31)},)
    state = compile_in_stages((module, args, kwargs, dims), OPTIONS)
    assert state.verified.passed
    assert state.optimization is not None
    assert all("inductor" in block.times_ms for block in state.optimization.blocks)
    path = tmp_path / "compiled.pt2"
    trtdiag.save(state.compiled, path)
    for shape in ((1, 3, 4, 4), (3, 3, 17, 31), (5, 3, 33, 31)):
        x = torch.randn(shape)
        torch.testing.assert_close(trtdiag.load(path)(x), module(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("process", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashes with SIGSEGV"),
        ("raise OSError('no such symbol')", "OSError: no such symbol"),
        ("raise SystemExit(3)", "ends with code 3"),
    ],
)
def test_code_that_crashes_a_process_is_refused(
    process: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_segment, "_PROCESS", process)
    with pytest.raises(EngineBuildError) as refused:
        compile_segment._compile(tmp_path / "segment.pt2", tmp_path / "code.pt2")
    assert said in refused.value.because


def test_a_machine_without_a_compiler_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> str:
        raise InvalidCxxCompiler

    # As PyTorch says it, which looks for a compiler once in a process.
    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", missing)
    with pytest.raises(EngineBuildError, match="C\\+\\+ compiler"):
        compile_segment._compile(tmp_path / "segment.pt2", tmp_path / "code.pt2")


@pytest.mark.parametrize(("found", "linked"), [("libstdc++.so", True), ("/usr/lib/gcc/12/libstdc++.so", False)])
def test_code_is_linked_to_the_shared_library_of_cpp(
    found: str, linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text(f"#!/bin/sh\necho {found}\n")
    compiler.chmod(0o755)
    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", lambda: str(compiler))
    assert ("aot_inductor.custom_op_libs" in compile_segment._configuration()) == linked


@pytest.mark.parametrize(("precision", "last"), [("fp16", True), ("keep", False)])
def test_on_a_gpu_convolutions_in_half_precision_have_their_channels_last(precision: str, last: bool) -> None:
    options = replace(OPTIONS, optimize="none", precision=Precision(precision), verify=False)
    state = compile_in_stages(_program(), options)
    (one,) = state.converted
    ports = list(state.engines[0].manifest.inputs)
    given = [torch.randn(3, 3, 11, 13)]
    plain, made = (exported_part(state.plan.source, one, ports, device) for device in ("cpu", "cuda"))
    weights = [weight for weight in made.state_dict.values() if weight.dim() == 4 and weight.shape[2:] != (1, 1)]
    assert [weight.is_contiguous(memory_format=torch.channels_last) for weight in weights] == [last] * 2
    for own, wanted in zip(made.module()(*given), plain.module()(*given), strict=True):
        # Half precision: sums of 27 and 36 products in another order.
        torch.testing.assert_close(own, wanted, rtol=1e-2, atol=1e-3)
