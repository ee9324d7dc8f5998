"""``trtdiag.bench``: what it times, at which sizes, and what it says of ways that cannot run."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import trtdiag
from tests.benchmark.bench_models import build
from trtdiag.benchmark.facts import AS_EXPORTED, Benchmark, SizeResult, Spread, WayResult
from trtdiag.benchmark.original import original
from trtdiag.benchmark.table import bench_text
from trtdiag.benchmark.ways import Ready
from trtdiag.errors import DimsError, UserError
from trtdiag.options import CompileOptions
from trtdiag.runtime.compiled import CompiledProgram


@pytest.fixture(scope="module")
def compiled() -> CompiledProgram:
    return trtdiag.compile(build(), backend="reference", verify=False, min_segment_ops=0)


@pytest.fixture(scope="module")
def half() -> CompiledProgram:
    return trtdiag.compile(build(), backend="reference", verify=False, min_segment_ops=0, precision="fp16")


@pytest.mark.slow  # quick: a saved program is timed beside its file
def test_eager_beside_compiled(compiled: CompiledProgram) -> None:
    found = trtdiag.bench(compiled, "eager", model=build(), rounds=2)
    ours, eager = found.results[0].ways
    assert (ours.way, eager.way) == ("trtdiag", "eager")
    assert ours.ratio == 1
    assert eager.ms is not None
    assert ours.ms is not None
    assert eager.ratio == eager.ms.median / ours.ms.median
    assert 0 < eager.ms.low <= eager.ms.median <= eager.ms.high
    assert ours.per_s is not None
    assert ours.per_s > 0
    assert ours.build_s is not None
    assert ours.build_s > 0
    assert (found.device, found.backend, found.precision, found.rounds) == ("cpu", "reference", "keep", 2)
    assert ours.bytes is None  # nobody counts on a CPU


# Quick: the usual sizes and some of one's own.
@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ("opt", "(4, 6, 5)"),
        pytest.param("min", "(1, 4, 5)", marks=pytest.mark.slow),
        pytest.param("max", "(9, 34, 5)", marks=pytest.mark.slow),
        pytest.param({"batch": 7}, "(7, 6, 5)", marks=pytest.mark.slow),
        ({"batch": 1, "x.shape[1]": 34}, "(1, 34, 5)"),
    ],
)
def test_sizes(compiled: CompiledProgram, sizes: Any, expected: str) -> None:
    found = trtdiag.bench(compiled, "eager", model=build(), sizes=sizes, rounds=1)
    assert [result.inputs for result in found.results] == [(f"x float32 {expected}", "scale float32 ()")]


@pytest.mark.slow  # quick: the sizes of a row, above
def test_opt_is_what_the_engines_were_tuned_for() -> None:
    tuned = trtdiag.compile(
        build(), backend="reference", verify=False, min_segment_ops=0, opt={"batch": 9, "x.shape[1]": 8}
    )
    both = trtdiag.bench(tuned, "eager", model=build(), sizes=["opt", {"batch": 2}], rounds=1)
    assert [result.inputs[0] for result in both.results] == ["x float32 (9, 8, 5)", "x float32 (2, 8, 5)"]


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return x * self.calls


def test_programs_are_left_with_the_state_that_they_had() -> None:
    """What was timed had been called hundreds of times: a cache was full, a counter had counted."""
    exported = torch.export.export(Counts(), (torch.ones(4),))
    random = torch.get_rng_state()
    program = trtdiag.compile(exported, backend="reference", min_segment_ops=0)
    assert torch.equal(torch.get_rng_state(), random), "comparing left its seed behind"
    assert torch.equal(program(torch.ones(4)), torch.ones(4))
    trtdiag.bench(program, "eager", model=exported, rounds=1)
    assert torch.equal(program(torch.ones(4)), 2 * torch.ones(4))
    assert int(exported.state_dict["calls"]) == 0


def test_other_names_of_sizes_that_the_engines_were_tuned_for(tmp_path: Path) -> None:
    """Both were said to contradict what nobody asked of this command, or to be no dims of the program."""
    options = CompileOptions(opt=(("batch", 9), ("x.shape[1]", 8)))
    there = original(build(), torch.device("cpu"), options)
    batch = next(symbol for symbol, name in there.program.names.items() if name == "batch")
    assert there.sizes("opt")[batch] == 9
    assert there.sizes([("x.shape[0]", 2)])[batch] == 2
    module, args, kwargs, dims = build()
    torch.export.save(torch.export.export(module, args, kwargs, dynamic_shapes=dims), tmp_path / "net.pt2")
    saved = original(str(tmp_path / "net.pt2"), torch.device("cpu"), options)
    usual = dict(zip(("x.shape[0]", "x.shape[1]"), saved.inputs(saved.sizes("opt"))[0][0].shape, strict=False))
    assert usual == {"x.shape[0]": args[0].shape[0], "x.shape[1]": 8}  # it has no "batch"
    with pytest.raises(DimsError, match="'height'"):
        saved.sizes([("height", 2)])
    with pytest.raises(DimsError) as caught:
        there.sizes([("batch", 3), ("x.shape[0]", 2)])
    assert caught.value.because == "they name one size"


def test_sizes_that_the_program_does_not_take(compiled: CompiledProgram) -> None:
    with pytest.raises(DimsError):
        trtdiag.bench(compiled, "eager", model=build(), sizes={"batch": 10}, rounds=1)
    with pytest.raises(UserError) as caught:
        trtdiag.bench(compiled, "eager", model=build(), sizes="largest", rounds=1)
    assert caught.value.reference == "wrong-option"
    assert "'largest'" in caught.value.message


def test_unknown_way_and_no_original(compiled: CompiledProgram) -> None:
    with pytest.raises(UserError) as caught:
        trtdiag.bench(compiled, ["eager", "tvm"], model=build())
    assert caught.value.reference == "unknown-way"
    assert "onnx-trt" in caught.value.because
    with pytest.raises(UserError) as caught:
        trtdiag.bench(compiled, "eager")
    assert caught.value.reference == "verify-without-original"
    assert "--model" in caught.value.fix


def test_peers_that_need_a_gpu_say_so(compiled: CompiledProgram) -> None:
    found = trtdiag.bench(compiled, ["onnx-trt", "cuda-graphs"], model=build(), rounds=1)
    rows = {way.way: way for way in found.results[0].ways}
    assert rows["trtdiag"].ms is not None
    assert "TensorRT" in rows["onnx-trt"].failed
    assert "CUDA" in rows["cuda-graphs"].failed
    assert rows["onnx-trt"].ms is None
    assert rows["onnx-trt"].ratio is None


@pytest.mark.slow  # quick: tests/benchmark/test_bench.py has the peers in float32
def test_half_precision_peers(half: CompiledProgram) -> None:
    found = trtdiag.bench(half, "eager", model=build(), rounds=1)
    assert [way.computes for way in found.results[0].ways] == ["float16", "float16"]


def test_a_program_that_takes_no_half_runs_under_autocast() -> None:
    class Mixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(5, 7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.first(x.float())  # with its weights in float16 this is an error

    asked = (Mixed().eval(), (torch.randn(3, 5),))
    compiled = trtdiag.compile(asked, backend="reference", verify=False, min_segment_ops=0, precision="bf16")
    found = trtdiag.bench(compiled, "eager", model=asked, rounds=1)
    assert found.results[0].ways[1].computes == "bfloat16 by autocast"


def test_a_way_that_breaks_is_a_row(compiled: CompiledProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise RuntimeError("no more\nthan five")

    def prepare(original: object, compiled: object) -> Ready:
        return Ready(lambda args, kwargs: call)

    monkeypatch.setattr("trtdiag.pipeline.bench.preparers", lambda names: {"eager": prepare})
    found = trtdiag.bench(compiled, "eager", model=build(), rounds=2)
    assert found.results[0].ways[1].failed == "no more"
    assert found.results[0].ways[0].ms is not None


@pytest.mark.slow  # quick: tests/cli/test_bench_cli.py
def test_saved_program_is_timed_beside_its_file(tmp_path: Path) -> None:
    module, args, kwargs, dims = build()
    torch.export.save(torch.export.export(module, args, kwargs, dynamic_shapes=dims), tmp_path / "small.pt2")
    compiled = trtdiag.compile(tmp_path / "small.pt2", backend="reference", verify=False, min_segment_ops=0)
    trtdiag.save(compiled, tmp_path / "small_trt.pt2")
    found = trtdiag.bench(tmp_path / "small_trt.pt2", rounds=1, sizes="max")
    assert found.results[0].inputs[0] == "x float32 (9, 34, 5)"
    assert found.results[0].ways[0].build_s == compiled.build_s
    document = json.loads(found.to_json())
    assert document["schema"] == "trtdiag-bench/1"
    assert document["results"][0]["ways"][1]["ms"]["calls"] == found.results[0].ways[1].ms.calls  # type: ignore[union-attr]


def test_table(compiled: CompiledProgram) -> None:
    found = trtdiag.bench(compiled, ["eager", "cuda-graphs"], model=build(), sizes=["opt", "max"], rounds=1)
    text = printed(found, 160)
    assert "to trtdiag" in text
    assert text.count("1.00x") == 2
    assert text.count("cuda-graphs: cannot run: there are no CUDA graphs here") == 2
    assert "opt (_steps=3, batch=4)" in text
    assert "max (_steps=17, batch=9)" in text


def printed(found: Benchmark, width: int) -> str:
    console = Console(width=width, file=StringIO())
    console.print(bench_text(found, width))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]  # it is the StringIO


@pytest.mark.parametrize("width", [60, 80, 120])
def test_many_inputs_are_counted_and_none_is_cut_in_its_middle(width: int) -> None:
    inputs = tuple(f"past_k[{at}] float32 (2, 4, 7, 16)" for at in range(13))
    sizes = {"batch": 2, "past": 7, "tokens": 3}
    slow = Spread(19.438, 11.215, 23.201, 52)
    ran = WayResult("trtdiag", AS_EXPORTED, slow, slow, 1234.5, 1.0, 83.9)
    failed = WayResult("onnx-trt", failed="TensorRT is not installed: Python finds no module 'tensorrt'")
    result = SizeResult("opt", sizes, inputs, (ran, failed))
    text = printed(Benchmark("cpu", "reference", None, "2.13.0", "keep", 4, (), (result,)), width)
    assert max(map(len, text.splitlines())) <= width
    told = " ".join(text.split())
    assert "opt (batch=2, past=7, tokens=3) past_k[0] float32 (2, 4, 7, 16), past_k[1] " in told
    assert "past_k[4] float32 (2, 4, 7, 16) and 8 more" in told
    assert "…" not in text
    as_list = "trtdiag: ms 19.4, tenths 11.2..23.2, alone 19.4, to trtdiag 1.00x, calls/s 1,234, build s 83.9"
    assert (as_list if width < 63 else "trtdiag 19.4 11.2..23.2 19.4 1.00x 1,234 83.9") in told
    assert "onnx-trt: cannot run: TensorRT is not installed: Python finds no module 'tensorrt'" in told
