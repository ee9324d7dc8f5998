"""Runs that are recorded as CUDA graphs: on a stand-in, whose recordings are the calls that made them."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from host_engine import Engine, HostGpu

from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.tensorrt import gpu
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.errors import UserError
from trtdiag.targets import TARGETS


class Recording:
    """A runner whose program keeps graphs."""

    def __init__(self, most: int = 2, gpu: HostGpu | None = None, version: str = "8.6") -> None:
        self.engine = Engine(version)
        self.gpu = gpu or HostGpu()
        self.runner: EngineRunner = self.engine.runner(self.gpu)
        self.choice: GraphChoice | None = GraphChoice(most)

    def __call__(self, rows: int, n: int, x: torch.Tensor | None = None) -> torch.Tensor:
        """The output, compared with what it must be."""
        given = self.engine.inputs(rows, n)
        given[0] = torch.randn(rows, 5).half() if x is None else x
        with choosing_graphs(self.choice):
            (y,) = self.runner(given)
        torch.testing.assert_close(y, given[0].sum(1) + torch.arange(n)[:, None].half(), rtol=0, atol=0)
        return y


@pytest.mark.parametrize("version", [target.version for target in TARGETS])
def test_sizes_that_come_again_are_recorded_once(version: str) -> None:
    run = Recording(version=version)
    for _ in range(5):
        run(3, 4)
    assert run.gpu.recorded == 1
    assert len(run.engine.contexts) == 2  # one for runs of all sizes, and the graph's own


def test_a_number_that_the_host_reads_is_part_of_the_sizes() -> None:
    run = Recording()
    for _ in range(3):
        run(3, 4)
        run(3, 5)
    assert run.gpu.recorded == 2


def test_outputs_are_the_callers() -> None:
    run = Recording()
    kept = [run(3, 4) for _ in range(5)]
    before = [y.clone() for y in kept]
    run(3, 4)
    assert all(torch.equal(one, other) for one, other in zip(kept, before, strict=True))
    assert len({y.data_ptr() for y in kept}) == 5


def test_inputs_may_lie_anyhow() -> None:
    run = Recording()
    for x in (
        torch.randn(5, 3).half().t(),
        torch.randn(3, 1).half().expand(3, 5),
        torch.randn(16).half()[1:].view(3, 5),
        torch.randn(6, 10).half()[::2, ::2],
    ):
        run(3, 4, x)
    assert run.gpu.recorded == 1


def test_tensors_without_elements_are_not_recorded() -> None:
    run = Recording()
    for _ in range(4):
        run(0, 4)
        run(3, 0)
    assert run.gpu.recorded == 0
    assert len(run.engine.contexts) == 3  # tried once each


def test_sizes_that_come_in_turn_are_not_recorded_anew_each_time() -> None:
    run = Recording(most=2)
    for _ in range(12):
        for rows in (1, 5, 8):
            run(rows, 4)
    assert run.gpu.recorded == 2


def test_sizes_that_come_no_more_give_way() -> None:
    run = Recording(most=2)
    for rows in (1, 5):
        for _ in range(20):
            run(rows, 4)
    for _ in range(40):
        run(8, 4)
    assert run.gpu.recorded == 3
    run(1, 4)
    run(5, 4)
    assert run.gpu.recorded == 3  # one of the two is still there, the other runs as always


def test_sizes_that_come_once_cost_no_recording() -> None:
    run = Recording(most=2)
    for n in range(9):
        run(3, n)
    assert run.gpu.recorded == 0


def test_threads_and_streams_record_their_own() -> None:
    run = Recording(gpu=HostGpu([1, 1, 2, 2, 1, 2]))
    for _ in range(6):
        run(3, 4)
    assert run.gpu.recorded == 2
    failed: list[BaseException] = []

    def other() -> None:
        try:
            run(3, 4)
            run(3, 4)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert not failed
    assert run.gpu.recorded == 3


def test_inference_mode_does_not_matter() -> None:
    run = Recording()
    with torch.inference_mode():
        run(3, 4)
        run(3, 4)  # recorded here
        assert run(3, 4).is_inference()
    assert not run(3, 4).is_inference()
    assert run.gpu.recorded == 1


def test_what_cannot_be_recorded_runs_as_always_and_says_so_once() -> None:
    run = Recording()
    run.gpu.fails = "operation not permitted when stream is capturing"
    run(3, 4)
    with pytest.warns(RuntimeWarning, match="not permitted when stream is capturing"):
        run(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(3, 4)
        run(5, 4)
        run(5, 4)
    assert run.gpu.recorded == 1


def test_without_a_choice_nothing_is_recorded() -> None:
    run = Recording()
    run.choice = None
    for _ in range(3):
        run(3, 4)
    assert run.gpu.recorded == 0


def test_graphs_go_with_the_programs_choice() -> None:
    run = Recording()
    for _ in range(3):
        run(3, 4)
    assert len(list(_graphs_of(run.runner))) == 1
    run.choice = None
    gc.collect()
    assert not list(_graphs_of(run.runner))


def _graphs_of(runner: EngineRunner) -> Iterator[object]:
    for place in runner._contexts._places.by_stream.values():
        yield from place.graphs.values()


def test_a_graph_that_another_records_gets_a_context_of_its_own() -> None:
    run = Recording()
    run.choice = None
    run(3, 4)
    run.gpu.is_recording = True
    run(3, 4)
    run.gpu.is_recording = False
    assert len(run.engine.contexts) == 1  # none was made while recording
    run(5, 4)
    assert len(run.engine.contexts) == 2  # the recorded one was left as it is
    told = [args for called, args, _ in run.engine.contexts[0].calls if called == "set_input_shape"]
    assert told == [("input 0: x", (3, 5))]


def test_recording_before_a_run_is_refused() -> None:
    run = Recording()
    run.choice = None
    run(3, 4)
    run.gpu.is_recording = True
    with pytest.raises(UserError, match="being recorded") as caught:
        run(5, 4)
    assert caught.value.reference == "recorded-before-run"
    assert len(run.engine.contexts) == 1


def test_a_program_may_have_an_engine_twice_in_a_graph() -> None:
    run = Recording()
    given = run.engine.inputs(3, 4)
    run.runner(given)
    run.gpu.is_recording = True
    with choosing_graphs(None):
        run.runner(given)
        run.runner(given)
    with pytest.raises(UserError), choosing_graphs(None):  # another call may be another graph
        run.runner(given)
    assert len(run.engine.contexts) == 1


class Capture:
    """A CUDA graph of PyTorch whose first recording CUDA reports as invalid."""

    made: ClassVar[list[Capture]] = []
    replay = None

    def __init__(self) -> None:
        self.made.append(self)
        self.events: list[str] = []

    def capture_begin(self, capture_error_mode: str) -> None:
        self.events.append(capture_error_mode)

    def capture_end(self) -> None:
        self.events.append("end")
        if self is self.made[0]:
            raise RuntimeError("operation failed due to a previous error during capture")


@pytest.fixture
def recorded_by_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Capture, "made", [])
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Capture)
    monkeypatch.setattr(torch.cuda, "stream", lambda _stream: nullcontext())
    monkeypatch.setattr(gpu, "_recording_stream", lambda _index: SimpleNamespace(cuda_stream=7))


@pytest.mark.usefixtures("recorded_by_stand_in")
def test_a_recording_that_failed_is_followed_by_one_that_frees_the_generator() -> None:
    streams: list[int] = []
    with pytest.raises(RuntimeError, match="previous error"):
        gpu.Gpu().record(torch.device("cpu"), streams.append)
    assert (streams, [each.events for each in Capture.made]) == ([7], [["thread_local", "end"]] * 2)
    gpu.Gpu().record(torch.device("cpu"), streams.append)
    assert len(Capture.made) == 3


@pytest.mark.usefixtures("recorded_by_stand_in")
def test_a_recording_is_not_collected_in_and_tells_the_first_error() -> None:
    """What the collector lets go of may give memory back, which CUDA does not allow in a recording."""
    collecting: list[bool] = []

    def fails(_stream: int) -> None:
        collecting.append(gc.isenabled())
        raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted"):  # and not what CUDA says at the end
        gpu.Gpu().record(torch.device("cpu"), fails)
    assert [each.events for each in Capture.made] == [["thread_local", "end"]] * 2
    gpu.Gpu().record(torch.device("cpu"), lambda _stream: collecting.append(gc.isenabled()))
    assert (collecting, gc.isenabled()) == ([False, False], True)
