"""How engines run on a GPU: threads, streams, CUDA graphs, modes of torch, devices; needs a GPU and TensorRT."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from engines_to_run import GRAPHS, MOST_ROWS, compare, program, repeated_rows, rows_of_input, several
from torch import Tensor

import trtdiag
from trtdiag.engine.backend import Runner, get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.tensorrt.context import EngineContext
from trtdiag.engine.tensorrt.context_memory import ContextMemory
from trtdiag.engine.tensorrt.engine_bindings import Ports
from trtdiag.engine.tensorrt.gpu import Gpu
from trtdiag.engine.tensorrt.lazy_import import import_tensorrt
from trtdiag.engine.tensorrt.log import logger_of
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.engine.tensorrt.single_context import shares_profiles
from trtdiag.errors import ShapeOutOfRangeError, UserError
from trtdiag.network import DType, NetworkBuilder, Origin
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.options import CompileOptions
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import CACHE, engine_bytes
from trtdiag.runtime.engine_nodes import engine_nodes
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, symbol
from trtdiag.targets import get_target, installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
SHARES = installed_version() is None or shares_profiles(import_tensorrt().trt)
shared_only = pytest.mark.skipif(not SHARES, reason="contexts of this TensorRT cannot share a profile: one for all")


@pytest.fixture(scope="module")
def compiled(name: str) -> CompiledProgram:
    return program(name, "tensorrt", "cuda")


@pytest.mark.parametrize("most", GRAPHS)
def test_threads_and_streams(compiled: CompiledProgram, expected: Any, most: int) -> None:
    compiled.cuda_graphs(most)
    # Copied to the host in the default stream, before there are others.
    cases = {(rows, seed): rows_of_input(rows, seed) for rows in (1, 2, 7, 31, MOST_ROWS) for seed in range(3)}
    wanted = {key: expected(x) for key, x in cases.items()}
    torch.cuda.synchronize()

    def work(index: int) -> None:
        draw = random.Random(index)
        stream = torch.cuda.Stream() if index % 4 else torch.cuda.default_stream()
        found = []
        with torch.cuda.stream(stream):
            for _ in range(60):
                key = draw.choice(list(cases))
                found.append((key, compiled(cases[key])))
            stream.synchronize()
        for key, actual in found:
            compare(actual, wanted[key])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def _long_work() -> None:
    """Seconds of work for the GPU that the CPU hands over at once."""
    one = torch.randn(8192, 8192, device="cuda")
    for _ in range(40):
        one = torch.tanh(one @ one)


@pytest.mark.parametrize("most", GRAPHS)
def test_a_call_waits_for_its_stream_and_the_host_does_not(compiled: CompiledProgram, expected: Any, most: int) -> None:
    compiled.cuda_graphs(most)
    stream = torch.cuda.Stream()
    x = rows_of_input(31)
    with torch.cuda.stream(stream):
        for _ in range(3):
            compiled(x)  # contexts, graphs and modules are made here
        _long_work()
        stream.synchronize()
        late = torch.zeros_like(x)
        _long_work()
        before = torch.cuda.Event()
        before.record()
        late.copy_(x)
        actual = compiled(late)
        assert not before.query(), "the call waited for the GPU"
        stream.synchronize()
    compare(actual, expected(x))


def test_random_numbers_after_a_recording_that_failed() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    rows = torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match="captur"):
        Gpu().record(device, lambda _stream: rows.nonzero())  # the host waits for how many there are
    torch.manual_seed(3)
    before = torch.randn(5, device=device)
    torch.manual_seed(3)
    assert torch.equal(torch.randn(5, device=device), before)


def test_graphs_change_nothing(compiled: CompiledProgram) -> None:
    draw = random.Random(5)
    # More sizes than graphs, some often and some seldom, in turns that change.
    rows = [draw.choice((1, 2, 3)) if draw.random() < 0.7 else draw.randint(1, MOST_ROWS) for _ in range(150)]
    rows += [draw.choice((59, 60, MOST_ROWS)) for _ in range(80)]
    kept = []
    for most in (0, 2):
        compiled.cuda_graphs(most)
        kept.append([compiled(rows_of_input(n, turn)) for turn, n in enumerate(rows)])
    for plain, replayed in zip(*kept, strict=True):
        for one, other in zip(several(plain), several(replayed), strict=True):
            # The same kernels on the same numbers; compared at the end, so that nothing was written over.
            torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_graphs_need_no_more_memory_with_time(compiled: CompiledProgram) -> None:
    compiled.cuda_graphs(2)
    used = []
    for turn in range(4):
        for n in (*range(1, 20), *range(20, 1, -1)):
            for _ in range(3):
                compiled(rows_of_input(n))
        torch.cuda.synchronize()
        used.append(torch.cuda.memory_allocated())
        assert turn == 0 or used[-1] <= used[0] + 64 * 1024  # buffers of the largest of these sizes
    with_graphs = torch.cuda.memory_allocated()
    compiled.cuda_graphs(0)
    assert torch.cuda.memory_allocated() < with_graphs


@pytest.mark.parametrize("most", GRAPHS)
def test_modes_of_torch_around_a_call(compiled: CompiledProgram, expected: Any, most: int) -> None:
    compiled.cuda_graphs(most)
    x = rows_of_input(13)
    wanted = expected(x)
    for _ in range(3):
        with torch.inference_mode():
            compare(compiled(x), wanted)
        with torch.no_grad():
            compare(compiled(x), wanted)
        with torch.autocast("cuda", dtype=torch.float16):
            for tensor in several(compiled(x)):
                assert tensor.dtype is torch.float32
            compare(compiled(x), wanted)
        compare(compiled(x.clone().requires_grad_()), wanted)


@pytest.mark.parametrize("most", GRAPHS)
def test_inputs_may_lie_anyhow(compiled: CompiledProgram, expected: Any, most: int) -> None:
    compiled.cuda_graphs(most)
    whole = torch.randn(40, 40, device="cuda")
    for x in (
        whole[:5, :7].t(),
        whole[:7, :1].expand(7, 5),
        whole[:1, :5].expand(7, 5),
        whole.flatten()[1:36].view(7, 5),
        whole[::5, ::8][:7],
        whole[:7, :5],
    ):
        compare(compiled(x), expected(x))


@pytest.mark.parametrize("most", GRAPHS)
def test_sizes_outside_are_refused_before_they_run(compiled: CompiledProgram, expected: Any, most: int) -> None:
    compiled.cuda_graphs(most)
    for _ in range(3):
        with pytest.raises(ShapeOutOfRangeError, match=str(MOST_ROWS)):
            compiled(rows_of_input(MOST_ROWS + 1))
        compare(compiled(rows_of_input(MOST_ROWS)), expected(rows_of_input(MOST_ROWS)))


@shared_only
@pytest.mark.parametrize("most", [0, 3])
def test_a_graph_that_the_caller_records(compiled: CompiledProgram, expected: Any, most: int) -> None:
    compiled.cuda_graphs(most)
    x = rows_of_input(17)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            compiled.cuda_graphs(0)
            compiled(x)
            compiled.cuda_graphs(most)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = compiled(x)
    for seed in range(1, 4):
        x.copy_(rows_of_input(17, seed))
        graph.replay()
        compare(outputs, expected(x))
        for rows in (1, 17, MOST_ROWS):  # the graph's context is not touched by other calls
            compare(compiled(rows_of_input(rows, seed)), expected(rows_of_input(rows, seed)))


@shared_only
def test_a_graph_is_recorded_after_a_run(compiled: CompiledProgram) -> None:
    compiled.cuda_graphs(0)
    gc.collect()  # engines of tests before that were collected while it records would spoil the recording
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(UserError) as caught, torch.cuda.graph(graph):
        compiled(torch.empty(19, 5, device="cuda"))
    assert caught.value.reference == "recorded-before-run"
    compiled(rows_of_input(19))


def test_an_engine_is_loaded_once(compiled: CompiledProgram, expected: Any, tmp_path: Path) -> None:
    compiled.cuda_graphs(0)
    x = rows_of_input(7)
    compiled(x)
    loaded_before = len(CACHE)
    trtdiag.save(compiled, tmp_path / "program.ep")
    again = trtdiag.load(tmp_path / "program.ep")
    compare(again(x), expected(x))
    compare(torch.export.load(tmp_path / "program.ep").module()(x), expected(x))
    assert len(CACHE) == loaded_before


def test_every_gpu_runs_what_is_on_it(expected: Any, name: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    if name == "between":
        pytest.skip("PyTorch's own weights of this program are on one GPU")
    made = program(name, "tensorrt", "cuda:0")
    for most in (0, 3):
        made.cuda_graphs(most)
        for rows in (1, 17, 17, 17, MOST_ROWS):
            for device in ("cuda:1", "cuda:0"):
                x = rows_of_input(rows, device=device)
                (actual,) = several(made(x))
                assert actual.device == x.device
                compare(actual, expected(x))
    assert torch.cuda.current_device() == 0
    del made
    gc.collect()  # and with it what was loaded on either GPU
    assert torch.cuda.current_device() == 0


def _repeats() -> tuple[Runner, Callable[[Tensor, Tensor], Tensor], torch.dtype]:
    target = get_target(None)
    sizes = DType.INT64 if "int64" in target.dtypes else DType.INT32
    network, profile = repeated_rows(sizes)
    backend = get_backend("tensorrt")
    engine = build_engine(backend, network, profile, CompileOptions(optimization_level=1), target)
    runner = backend.load(engine.blob, engine.manifest)
    return runner, lambda x, n: x[torch.arange(int(n), device=x.device) % x.shape[0]], sizes.torch


@pytest.mark.parametrize("most", GRAPHS)
def test_a_number_that_enters_an_engine(most: int) -> None:
    runner, expected, sizes = _repeats()
    choice = GraphChoice(most) if most else None
    for _ in range(3):
        for rows, count in ((3, 4), (3, 7), (9, 12), (1, 1), (3, 0)):
            x, n = torch.randn(rows, 5, device="cuda"), torch.tensor(count, dtype=sizes)
            with choosing_graphs(choice):
                (y,) = runner([x, n])
            torch.testing.assert_close(y, expected(x, n), rtol=0, atol=0)


@pytest.mark.parametrize("most", GRAPHS)
def test_tensors_without_elements(most: int) -> None:
    builder = NetworkBuilder({"s": Range(0, 9)})
    with builder.at(Origin("aten.relu.default", "relu")):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), 5])
        builder.output("y", builder.add_single(Activation(ActivationType.RELU), x))
    profile = {"x": (DimProfile(0, 3, 9), DimProfile(5, 5, 5))}
    backend = get_backend("tensorrt")
    engine = build_engine(backend, builder.build(), profile, CompileOptions(optimization_level=1), get_target(None))
    runner = backend.load(engine.blob, engine.manifest)
    with choosing_graphs(GraphChoice(most) if most else None):
        for rows in (3, 0, 0, 0, 9, 3):
            given = torch.randn(rows, 5, device="cuda")
            (y,) = runner([given])
            torch.testing.assert_close(y, given.relu(), rtol=0, atol=0)


@shared_only
def test_contexts_that_share_scratch_memory() -> None:
    trt = import_tensorrt().trt
    made = program("alone", "tensorrt", "cuda")
    (node,) = engine_nodes(made.exported_program)
    runtime = trt.Runtime(logger_of(trt))
    engine = runtime.deserialize_cuda_engine(engine_bytes(node.engine))
    ports = Ports.of(trt, engine, node.manifest, torch.device("cuda", 0))
    device = torch.device("cuda", 0)
    scratch = ContextMemory(trt, engine, device)
    stream = torch.cuda.current_stream().cuda_stream
    contexts = [EngineContext(ports, scratch, stream) for _ in range(3)]
    alone, own = EngineContext(ports, scratch, stream), scratch.own()
    for turn in range(3):
        # Each turn other memory, full of what must not matter.
        memory = torch.full((scratch.size_bytes,), 255, dtype=torch.uint8, device=device)
        for context in contexts:
            context.take(memory)
        for index in range(9):
            given = [rows_of_input(1 + (index * 7 + turn) % MOST_ROWS, turn)]
            key = ports.key(given)
            (y,) = contexts[index % 3].run(given, memory, key, stream)
            (wanted,) = alone.run(given, own, key, stream)
            torch.testing.assert_close(y, wanted, rtol=0, atol=0)  # the same kernels


@shared_only
def test_engines_share_scratch_memory(compiled: CompiledProgram, expected: Any) -> None:
    kept = []  # memory stays while something runs in it
    gc.collect()  # larger engines of tests before, of which this one would take memory that then goes with them
    for _ in range(3):
        made = CompiledProgram(compiled.exported_program).cuda_graphs(2)
        for rows in (1, 7, 7, 7, MOST_ROWS, MOST_ROWS, MOST_ROWS):
            compare(made(rows_of_input(rows)), expected(rows_of_input(rows)))
        stream = torch.cuda.current_stream().cuda_stream
        for manifest in made.manifests:
            runner = CACHE.loaded(manifest)
            assert isinstance(runner, EngineRunner)
            kept.append((made, runner._scratch.shared(stream)))
    assert len({memory.data_ptr() for _, memory in kept}) == 1


@pytest.mark.parametrize("recorded", ["by the engine", "by the caller"])
def test_graphs_of_fixed_sizes(name: str, expected: Any, recorded: str) -> None:
    made = program(name, "tensorrt", "cuda", fixed=True)
    x = rows_of_input(7)
    kept = []
    if recorded == "by the engine":
        made.cuda_graphs(1)
        for seed in range(5):
            kept.append((seed, made(rows_of_input(7, seed))))
    else:
        made(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = several(made(x))
        for seed in range(5):
            x.copy_(rows_of_input(7, seed))
            graph.replay()
            kept.append((seed, tuple(output.clone() for output in outputs)))
            compare(made(rows_of_input(7, seed + 9)), expected(rows_of_input(7, seed + 9)))
    for seed, actual in kept:
        compare(actual, expected(rows_of_input(7, seed)))
