"""Segments of AOTInductor replay their runs as CUDA graphs where no program does; the CPU stands for the GPU."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Sequence
from inspect import getclosurevars
from threading import Thread
from typing import Any

import pytest
import torch

from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.inductor import package, runner
from trtdiag.engine.inductor.segment_graphs import SegmentGraphs
from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.engine.tensorrt.gpu import Gpu, Replay, Work
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Num, symbol

CPU = torch.device("cpu")


class HostGpu(Gpu):
    """The CPU in the place of a GPU: a replay runs the work again, into the memory of the first time."""

    fails = ""
    is_recording = False
    on = 7

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def stream(self, device: torch.device) -> int:
        return self.on

    def recording(self) -> bool:
        return self.is_recording

    def record(self, device: torch.device, work: Work) -> Replay:
        self.recorded += 1
        made: list[torch.Tensor] = getclosurevars(work).nonlocals["made"]
        work(7)
        if self.fails:
            raise RuntimeError(self.fails)
        first = list(made)

        def replay() -> None:
            self.replayed += 1
            work(7)
            for place, now in zip(first, made, strict=True):
                place.copy_(now)

        return replay


def _doubled(inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return (inputs[0] * 2, inputs[0].sum(0))


def _graphs(alone: int = 2, run: Callable[[list[torch.Tensor]], Any] = _doubled) -> tuple[SegmentGraphs, HostGpu]:
    gpu = HostGpu()
    return SegmentGraphs(run, CPU, alone, gpu), gpu


def _called(graphs: SegmentGraphs, x: torch.Tensor) -> Sequence[torch.Tensor]:
    made = graphs([x])
    return _doubled([x]) if made is None else made


def test_sizes_that_come_again_are_replayed_and_results_are_the_callers() -> None:
    graphs, gpu = _graphs()
    kept = []
    for turn in range(5):
        for rows in (1, 7):
            x = torch.full((rows, 3), float(turn))
            outputs = _called(graphs, x)
            for own, expected in zip(outputs, _doubled([x]), strict=True):
                assert torch.equal(own, expected)
            kept.append((outputs[0], outputs[0].clone()))
    # The first run of a size is as always, the second is recorded.
    assert (gpu.recorded, gpu.replayed) == (2, 6)
    assert all(torch.equal(now, before) for now, before in kept)


@pytest.mark.parametrize(
    ("call", "recorded"),
    [
        (None, 1),
        (choosing_graphs(None), 0),  # a program without graphs
        (choosing_graphs(GraphChoice(3)), 1),  # one that cannot be recorded whole
    ],
)
def test_a_program_decides_and_else_what_it_was_compiled_for(call: choosing_graphs | None, recorded: int) -> None:
    graphs, gpu = _graphs()
    for _ in range(3):
        if call is None:
            _called(graphs, torch.ones(2, 3))
        else:
            with call:
                _called(graphs, torch.ones(2, 3))
    assert gpu.recorded == recorded


def test_nothing_is_recorded_where_nobody_asked() -> None:
    graphs, gpu = _graphs(alone=0)
    assert [graphs([torch.ones(2, 3)]) for _ in range(4)] == [None] * 4
    assert gpu.recorded == 0


def test_what_records_already_records_the_code_itself() -> None:
    graphs, gpu = _graphs()
    gpu.is_recording = True
    assert [graphs([torch.ones(2, 3)]) for _ in range(4)] == [None] * 4


def test_threads_and_streams_have_graphs_of_their_own() -> None:
    graphs, gpu = _graphs()

    def work() -> None:
        for _ in range(3):
            _called(graphs, torch.ones(2, 3))

    work()
    thread = Thread(target=work)
    thread.start()
    thread.join()
    gpu.on = 8
    work()
    assert (gpu.recorded, gpu.replayed) == (3, 3)


def test_what_cuda_refuses_runs_as_always_with_one_warning() -> None:
    graphs, gpu = _graphs()
    gpu.fails = "operation not permitted when stream is capturing\nmore"
    x = torch.ones(2, 3)
    assert graphs([x]) is None  # the first run
    with pytest.warns(RuntimeWarning, match=r"without CUDA graphs.*stream is capturing\)$"):
        made = graphs([x])
    assert made is not None
    assert torch.equal(made[0], 2 * x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [graphs([torch.ones(2, 3)]) for _ in range(4)] == [None] * 4
    assert gpu.recorded == 1


def test_runs_in_inference_mode_and_outside_share_a_graph() -> None:
    graphs, gpu = _graphs()
    with torch.inference_mode():
        for _ in range(2):
            _called(graphs, torch.ones(2, 3))
    assert torch.equal(_called(graphs, torch.full((2, 3), 5.0))[0], torch.full((2, 3), 10.0))
    assert (gpu.recorded, gpu.replayed) == (1, 1)


def _runner(graphs: int, monkeypatch: pytest.MonkeyPatch) -> tuple[runner.SegmentRunner, HostGpu]:
    gpu = HostGpu()

    def on_host(run: Any, device: torch.device, alone: int) -> SegmentGraphs:
        return SegmentGraphs(run, device, alone, gpu)

    class OnGpu:
        """The device of the segment, as far as it decides."""

        type = "cuda"

    monkeypatch.setattr(runner, "SegmentGraphs", on_host)
    x = EngineInput("x", torch.float32, (symbol("rows"), Num(3)), (DimProfile(0, 2, 9), DimProfile(3, 3, 3)))
    manifest = Manifest("0", "inductor", "8.6", "cpu", "0" * 64, "0" * 64, (x,), (), {})
    return runner.SegmentRunner(manifest, _doubled, _doubled, OnGpu(), graphs), gpu  # type: ignore[arg-type]


def test_prepared_runs_of_a_program_without_graphs_stay_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made, gpu = _runner(8, monkeypatch)
    x = torch.ones(2, 3)
    with choosing_graphs(None):
        prepared = made.prepared([x])
    assert all(torch.equal(prepared([x])[0], 2 * x) for _ in range(4))  # type: ignore[index]
    assert gpu.recorded == 0
    alone = made.prepared([x])
    assert all(torch.equal(alone([x])[0], 2 * x) for _ in range(4))  # type: ignore[index]
    assert (gpu.recorded, gpu.replayed) == (1, 2)


def test_inputs_without_elements_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    made, gpu = _runner(8, monkeypatch)
    for _ in range(3):
        assert [output.shape for output in made([torch.ones(0, 3)])] == [(0, 3), (3,)]
    assert gpu.recorded == 0


def test_a_segment_that_goes_takes_its_graphs_along(monkeypatch: pytest.MonkeyPatch) -> None:
    made, gpu = _runner(8, monkeypatch)
    for _ in range(3):
        made([torch.ones(2, 3)])
    assert gpu.replayed == 1
    gone = weakref.ref(made)
    gc.disable()
    try:
        del made
        assert gone() is None, "the memory of its graphs would stay until Python looks for garbage"
    finally:
        gc.enable()


@pytest.mark.parametrize("graphs", [0, 1, 8])
def test_the_bytes_of_a_segment_say_how_many_graphs(graphs: int) -> None:
    x = torch.randn(2, 3)
    segment = torch.export.export(torch.nn.Linear(3, 2), (x,))
    blob = package.packed(segment, package.Code(b"code"), "cpu", graphs)
    assert package.Package.read(blob).graphs == graphs
