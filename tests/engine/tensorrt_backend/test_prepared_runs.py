"""Runs of sizes that ran before: what is told TensorRT again, and when a prepared run gives way to a whole one."""

from __future__ import annotations

import threading
import warnings
import weakref
from typing import Any

import pytest
import torch
from host_engine import HostGpu, RowSums

from trtdiag.engine.cuda_graph_cache import MOST_CREDIT
from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.tensorrt import cuda_graphs, prepared_run
from trtdiag.engine.tensorrt.context import EngineContext
from trtdiag.engine.tensorrt.cuda_graphs import MOST_DIRECT
from trtdiag.engine.tensorrt.gpu import new_memory
from trtdiag.engine.tensorrt.prepared_run import PreparedRun
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.engine.tensorrt.single_context import SHARING
from trtdiag.errors import InternalError
from trtdiag.targets import TARGETS


@pytest.fixture(autouse=True)
def _alignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch aligns less on the CPU than on a GPU."""
    for module in (prepared_run, cuda_graphs):
        monkeypatch.setattr(module, "ALIGNMENT", 16)


def _rows(count: int) -> torch.Tensor:
    return torch.randn(count, 5).half()


def _agrees(y: torch.Tensor, x: torch.Tensor) -> None:
    torch.testing.assert_close(y, x.sum(1), rtol=0, atol=0)


def _run(runner: EngineRunner, x: torch.Tensor) -> torch.Tensor:
    (y,) = runner([x])
    _agrees(y, x)
    return y


def _prepared(runner: EngineRunner, x: torch.Tensor) -> PreparedRun:
    run = runner.prepared([x])
    assert run is not None
    return run


def _again(run: PreparedRun, x: torch.Tensor, outputs: list[torch.Tensor] | None = None) -> torch.Tensor:
    made = run([x], outputs)
    assert made is not None
    (y,) = made
    _agrees(y, x)
    return y


def _told(engine: RowSums, name: str) -> list[tuple[Any, ...]]:
    return [args for context in engine.contexts for called, args, _ in context.calls if called == name]


@pytest.mark.parametrize("version", [target.version for target in TARGETS])
def test_sizes_are_told_once_and_results_are_new_memory(version: str) -> None:
    engine = RowSums(version)
    runner = engine.runner()
    x = _rows(7)
    _run(runner, x)
    run = _prepared(runner, x)
    kept = [_again(run, x if index % 2 else _rows(7)) for index in range(5)]
    assert len({y.data_ptr() for y in kept}) == 5
    assert len(_told(engine, "set_input_shape")) == len(_told(engine, "infer_shapes")) == 1


def test_it_writes_where_it_is_told() -> None:
    runner = RowSums("8.6").runner()
    x, y = _rows(3), torch.empty(3).half()
    _run(runner, x)
    run = _prepared(runner, x)
    assert run.takes([y])
    assert _again(run, x, [y]) is y


@pytest.mark.parametrize(
    "outputs",
    [
        [],
        [torch.empty(4).half()],
        [torch.empty(3)],
        [torch.empty(6).half()[::2]],
        [torch.empty(3, 1).half()],
        [torch.empty(3, device="meta").half()],
    ],
    ids=["none", "longer", "another dtype", "not row-major", "another rank", "elsewhere"],
)
def test_it_takes_memory_for_its_outputs_alone(outputs: list[torch.Tensor]) -> None:
    runner = RowSums("8.6").runner()
    x = _rows(3)
    _run(runner, x)
    assert not _prepared(runner, x).takes(outputs)


def test_other_sizes_since_then_are_looked_at() -> None:
    runner = RowSums("8.6").runner()
    x = _rows(3)
    _run(runner, x)
    run = _prepared(runner, x)
    _run(runner, _rows(8))
    assert run([x]) is None
    _run(runner, x)
    _again(run, x)


def test_another_stream_is_another_context() -> None:
    gpu = HostGpu()
    engine = RowSums("8.6")
    runner = engine.runner(gpu)
    x = _rows(3)
    _run(runner, x)
    run = _prepared(runner, x)
    gpu.streams = [8]
    assert run([x]) is None
    gpu.streams = [8] * 9
    _run(runner, x)
    assert len(engine.contexts) == 2
    gpu.streams = []
    _again(run, x)


def test_on_another_stream_it_is_prepared_anew() -> None:
    gpu = HostGpu()
    runner = RowSums("8.6").runner(gpu)
    x = _rows(3)
    _run(runner, x)
    first = _prepared(runner, x)
    gpu.streams = [8] * 9
    _run(runner, x)
    gpu.streams = [8] * 9
    second = _prepared(runner, x)
    assert second is not first
    _again(second, x)


def test_a_recording_around_it_gets_the_context() -> None:
    gpu = HostGpu()
    engine = RowSums("8.6")
    runner = engine.runner(gpu)
    x = _rows(3)
    _run(runner, x)
    run = _prepared(runner, x)
    gpu.is_recording = True
    assert run([x]) is None
    runner([x])
    gpu.is_recording = False
    assert run([x]) is None, "the context is the graph's"
    _run(runner, x)
    assert len(engine.contexts) == 2


@pytest.mark.parametrize("handle", [0, 9])
def test_the_default_stream_is_not_asked_whether_it_is_recorded(handle: int) -> None:
    gpu = HostGpu()
    runner = RowSums("8.6").runner(gpu)
    x = _rows(3)
    gpu.streams = [handle] * 9
    _run(runner, x)
    run = _prepared(runner, x)
    gpu.streams = [handle] * 9
    gpu.is_recording = True  # which CUDA refuses for the handle 0
    assert (run([x]) is None) == bool(handle)


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 0, 5), (7, 1, 3)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.bool, torch.bfloat16])
@pytest.mark.parametrize("direct", [True, False])
def test_new_memory_is_as_torch_makes_it(
    shape: tuple[int, ...], dtype: torch.dtype, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not direct:  # an older PyTorch
        monkeypatch.delattr(torch._C._dynamo.guards, "_empty_strided_cpu", raising=False)
    like = torch.empty(shape, dtype=dtype)
    new = new_memory(torch.device("cpu"))
    made = new(shape, like.stride(), dtype)
    assert (made.shape, made.stride(), made.dtype, made.device) == (like.shape, like.stride(), dtype, like.device)
    assert not made.is_inference()
    with torch.inference_mode():
        assert new(shape, like.stride(), dtype).is_inference()


@pytest.mark.parametrize("other", ["transposed", "misaligned", "no rows"])
def test_what_cannot_be_read_in_place_runs_as_always(other: str) -> None:
    engine = RowSums("8.6")
    runner = engine.runner()
    x = _rows(3)
    _run(runner, x)
    run = _prepared(runner, x)
    if other == "transposed":
        x = _rows(5)[:, :3].t()
        assert runner.prepared([x]) is None
    elif other == "misaligned":
        x = torch.randn(16).half()[1:].view(3, 5)
        assert run([x]) is None
    else:
        x = _rows(0)
    for _ in range(3):
        _run(runner, x)


def test_a_refused_run_says_so() -> None:
    engine = RowSums("8.6")
    runner = engine.runner()
    x = _rows(3)
    _run(runner, x)
    run = _prepared(runner, x)
    engine.runs = False
    with pytest.raises(InternalError, match="does not run") as caught:
        run([x])
    assert caught.value.reference == "tensorrt-run"


def test_threads_prepare_their_own() -> None:
    engine = RowSums("8.6")
    runner = engine.runner()
    for _ in range(3):
        _run(runner, _rows(3))
    thread = threading.Thread(target=lambda: [_run(runner, _rows(3)) for _ in range(3)])
    thread.start()
    thread.join()
    assert len(engine.contexts) == 2


class Recording:
    """A runner whose program keeps graphs, called as a program of one engine calls it."""

    def __init__(self, engine: RowSums, gpu: HostGpu | None = None) -> None:
        self.gpu = gpu or HostGpu()
        self.runner = engine.runner(self.gpu)
        self.choice = GraphChoice(2)
        self.runs: dict[torch.Size, PreparedRun | None] = {}

    def __call__(self, x: torch.Tensor, outputs: list[torch.Tensor] | None = None) -> torch.Tensor:
        run = self.runs.get(x.shape)
        made = None if run is None else run([x], outputs)
        if made is None:
            with choosing_graphs(self.choice):
                made = self.runner([x])
                self.runs[x.shape] = self.runner.prepared([x])
        (y,) = made
        _agrees(y, x)
        return y


def test_runs_on_the_same_memory_are_recorded_there() -> None:
    run = Recording(RowSums("8.6"))
    x, y = _rows(3), torch.empty(3).half()
    for _ in range(2):
        run(x)
    assert run.gpu.recorded == 1
    for count in (1, 2, 2, 2):  # the second time that this memory comes
        x.copy_(_rows(3))
        assert run(x, [y]) is y
        assert run.gpu.recorded == count


def test_other_memory_of_the_same_sizes_is_copied() -> None:
    run = Recording(RowSums("8.6"))
    for _ in range(2):
        run(_rows(3))
    places = [(_rows(3), torch.empty(3).half()) for _ in range(MOST_DIRECT + 3)]
    for _ in range(3):
        for x, y in places:
            run(x, [y])
    assert run.gpu.recorded == 1 + MOST_DIRECT
    x, y = places[-1]
    for _ in range(60):  # the memory of now takes the place of what comes no more
        run(x, [y])
    assert run.gpu.recorded == 2 + MOST_DIRECT


def test_a_recording_on_memory_that_fails_leaves_the_copies() -> None:
    run = Recording(RowSums("8.6"))
    x, y = _rows(3), torch.empty(3).half()
    for _ in range(2):
        run(x)
    run.gpu.fails = "operation not permitted when stream is capturing"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            run(x, [y])


def _one_context(gpu: HostGpu | None = None) -> Recording:
    engine = RowSums("8.6")
    del engine.trt.PreviewFeature.__members__[SHARING]
    return Recording(engine, gpu)


def test_one_context_records_sizes_that_stay() -> None:
    run = _one_context()
    for _ in range(6):
        run(_rows(3))
    assert run.gpu.recorded >= 1
    assert len(run.runner._contexts._places.by_stream) == 0, "only the one context runs"
    before = run.gpu.recorded
    for rows in (8, 3, 8, 3, 8):
        run(_rows(rows))
    assert run.gpu.recorded == before, "sizes that come in turn are not recorded"


def test_recordings_of_one_context_that_do_not_pay_become_rare() -> None:
    run = _one_context()
    for turn in range(40):
        for _ in range(4):
            run(_rows(3 if turn % 2 else 8))
    assert 1 <= run.gpu.recorded <= 3


def test_one_context_waits_for_the_stream_before() -> None:
    gpu = HostGpu()
    run = _one_context(gpu)
    for stream in (1, 1, 1, 2, 1, 1):
        gpu.streams = [stream] * 3
        run(_rows(3))
    assert gpu.followed == [0, 1], "once for each change of stream"


def test_what_a_programs_own_recording_needs_goes_with_it() -> None:
    gpu = HostGpu()
    engine = RowSums("8.6")
    runner = engine.runner(gpu)
    x = _rows(3)
    alive: list[weakref.ref[EngineContext]] = []
    for _ in range(3):
        held: list[tuple[object, object]] = []
        _run(runner, x)
        gpu.is_recording = True
        with choosing_graphs(None, held=held):
            runner([x])
            runner([x])  # the same engine twice in a program
        gpu.is_recording = False
        ((_, context),) = held
        assert isinstance(context, EngineContext)
        alive.append(weakref.ref(context))
        _run(runner, x)
        del held, context
    assert [found() for found in alive] == [None] * 3


def test_sizes_whose_graph_runs_on_the_callers_memory_alone_stay() -> None:
    run = Recording(RowSums("8.6"))
    run.choice = GraphChoice(1)
    x, y = _rows(3), torch.empty(3).half()
    for _ in range(6):
        run(x, [y])
    assert run.gpu.recorded == 2
    for _ in range(MOST_CREDIT):  # used between, it gives way to nobody
        run(_rows(8))
        run(x, [y])
        run(x, [y])
    assert run.gpu.recorded == 2
    for _ in range(2 * MOST_CREDIT):
        run(_rows(8))
    assert run.gpu.recorded == 3
    x.copy_(_rows(3))
    run(x, [y])


def test_what_was_recorded_for_other_sizes_of_the_one_context_is_gone() -> None:
    run = _one_context()
    for _ in range(4):
        run(_rows(3))
    prepared = run.runs[torch.Size((3, 5))]
    assert prepared is not None
    _again(prepared, _rows(3))
    with choosing_graphs(run.choice):  # as another thread on this stream
        for rows in (8, 3):
            _run(run.runner, _rows(rows))
    assert prepared([_rows(3)]) is None
