"""Whole runs of a program as graphs, with engines of the reference and a recording that runs its work again."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from inspect import getclosurevars
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.runtime.compiling import compiled
from trtdiag.engine.cuda_graph_choice import GraphChoice, RtxChoice, choosing_graphs, chosen_graphs
from trtdiag.engine.tensorrt.gpu import Gpu, Replay, Work
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.program_graphs import ProgramGraphs

ROWS = {0: Dim("rows", min=1, max=11)}


class Mixed(nn.Module):
    """An engine, a product that stays with PyTorch, and another engine; a size is a result."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        y = torch.mm(torch.relu(self.linear(x)), torch.ones(5, 5)) + 1
        return torch.relu(self.linear(y)), x.shape[0]


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(torch.relu(x).sum(0))
        return torch.mm(x, torch.ones(5, 5)) + self.count


class Rows(nn.Module):
    """Two results that share memory."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.mm(torch.relu(x), torch.ones(5, 5))
        return y, y.select(0, 0)


class HostGpu(Gpu):
    """The CPU in the place of a GPU: a recording runs its work again, into the memory of the first time."""

    fails = ""
    is_recording = False
    recorded = 0
    replayed = 0

    def stream(self, device: torch.device) -> int:
        return 7

    def recording(self) -> bool:
        return self.is_recording

    def record(self, device: torch.device, work: Work) -> Replay:
        self.recorded += 1
        made: list[Any] = getclosurevars(work).nonlocals["made"]  # the results, as they are
        state = [(buffer, buffer.clone()) for buffer in self.buffers]
        work(7)
        if self.fails:
            raise RuntimeError(self.fails)
        for buffer, before in state:  # recording runs nothing
            buffer.copy_(before)
        first = list(made)

        def replay() -> None:
            self.replayed += 1
            work(7)
            for place, now in zip(first, made, strict=True):
                if isinstance(place, Tensor):
                    place.copy_(now)

        return replay

    buffers: Sequence[Tensor] = ()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> HostGpu:
    made = HostGpu()

    def on_host(*args: Any) -> ProgramGraphs:
        return ProgramGraphs(*args, gpu=made, device="cpu")

    monkeypatch.setattr("trtdiag.runtime.compiled.ProgramGraphs", on_host)
    return made


def _mixed(module: nn.Module) -> CompiledProgram:
    x = torch.randn(3, 5)
    return compiled(module.eval(), (x,), dynamic_shapes={"x": ROWS}, keep=["aten.mm", "aten.select"]).cuda_graphs(2)


def test_whole_runs_are_recorded(gpu: HostGpu) -> None:
    module = Mixed()
    program = _mixed(module)
    kept = []
    for _ in range(5):
        for rows in (3, 11):
            x = torch.randn(rows, 5)
            y, size = program(x)
            torch.testing.assert_close(y, module(x)[0])
            assert size == rows
            kept.append((y, y.clone()))
    assert (gpu.recorded, gpu.replayed) == (2, 4)
    assert all(torch.equal(y, before) for y, before in kept), "results are the caller's to keep"


def test_a_recording_changes_buffers_as_often_as_it_runs(gpu: HostGpu) -> None:
    module = Counter().eval()
    program = _mixed(copy.deepcopy(module))
    gpu.buffers = program.state()
    for _ in range(6):
        x = torch.randn(3, 5)
        torch.testing.assert_close(program(x), module(x))
    assert gpu.recorded == 1


def test_what_cannot_be_recorded_whole_says_so_once(gpu: HostGpu) -> None:
    gpu.fails = "operation not permitted when stream is capturing\nand more"
    module = Mixed()
    program = _mixed(module)
    x = torch.randn(3, 5)
    for _ in range(3):
        program(x)
    with pytest.warns(RuntimeWarning, match=r"not permitted when stream is capturing\)"):
        program(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(program(x)[0], module(x)[0])


def test_results_that_share_memory_are_not_copied(gpu: HostGpu) -> None:
    program = _mixed(Rows())
    x = torch.randn(3, 5)
    for _ in range(3):
        program(x)
    with pytest.warns(RuntimeWarning, match="share memory"):
        program(x)
    for _ in range(3):
        y, row = program(x)
        assert row.data_ptr() == y.data_ptr()
    assert gpu.recorded == 0


def test_a_result_that_is_an_input_stays_it() -> None:
    gpu = HostGpu()
    graphs = ProgramGraphs(lambda x, n: [x * n, n, x], (), RtxChoice(), 2, gpu=gpu, device="cpu")
    for _ in range(5):
        x = torch.randn(3)
        made = graphs((x, 3), ("three",))
        assert made is not None
        torch.testing.assert_close(made[0], 3 * x)
        assert made[1] == 3
        assert made[2] is x
    assert (gpu.recorded, gpu.replayed) == (1, 3)


def test_engines_of_a_program_that_is_recorded_whole_keep_no_graphs_of_their_own() -> None:
    asked = []

    def run(x: Tensor) -> list[Tensor]:
        asked.append(chosen_graphs())
        return [x + 1]

    graphs = ProgramGraphs(run, (), RtxChoice(), 2, gpu=HostGpu(), device="cpu")
    with choosing_graphs(GraphChoice(2)):
        for rows in (3, 3, 5):
            graphs((torch.ones(rows),), (rows,))
    assert len(asked) == 4  # 3 again: once to run, once to record
    assert not any(asked)


@pytest.mark.slow  # quick: test_whole_runs_are_recorded
def test_a_recording_around_the_program_is_left_alone(gpu: HostGpu) -> None:
    program = _mixed(Mixed())
    x = torch.randn(3, 5)
    for _ in range(4):
        program(x)
    gpu.is_recording = True
    program(x)
    assert (gpu.recorded, gpu.replayed) == (1, 1)


def test_inference_mode_does_not_matter(gpu: HostGpu) -> None:
    program = _mixed(Mixed())
    x = torch.randn(3, 5)
    with torch.inference_mode():
        for _ in range(4):
            assert program(x)[0].is_inference()
    assert not program(x)[0].is_inference()
    assert gpu.recorded == 1


class Masked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.mm(torch.relu(x), torch.ones(5, 5))[x[:, 0] > 0]


def test_sizes_that_data_decides_are_not_recorded(gpu: HostGpu) -> None:
    program = _mixed(Masked())
    x = torch.randn(7, 5)
    program(x)
    with pytest.warns(RuntimeWarning, match="the data decides a size"):
        made = program(x)
    torch.testing.assert_close(made, Masked()(x))
    assert gpu.recorded == 0
