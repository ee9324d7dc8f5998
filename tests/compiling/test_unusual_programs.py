"""Programs with something that few have: compiled, saved by torch and loaded, they agree with their models."""

from __future__ import annotations

import copy
import io
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from tests.harness.rows import thinned
from tests.runtime.agreeing import assert_agrees
from trtdiag.errors import CaptureError
from trtdiag.runtime.compiled import CompiledProgram

BATCH = Dim("batch", min=2, max=9)


class Branches(nn.Module):
    """A nested graph, which stays with PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return torch.cond(x.sum() > 0, lambda v: v * 2 + 1, lambda v: v - 1, (y,)).relu()


class TakesNumber(nn.Module):
    def forward(self, x: Tensor, k: int) -> tuple[Tensor, int]:
        return torch.relu(x) * k + 1, k + 1


class UnsavedBuffer(nn.Module):
    """Changes a buffer that is not saved with the state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(5), persistent=False)
        self.linear = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return self.linear(x) + self.calls


class Cache(nn.Module):
    """Writes to a place in a buffer that a tensor says."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 9, 5))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        self.kept[:, position] = x
        return (self.kept * 2).sum(1)


class Twice(nn.Module):
    """One output twice, and the input."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x.relu() + 1
        return y, y, x


class FromData(nn.Module):
    """Data decides a size, which an engine takes from a tensor and another as a number."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.masked_select(x, x > 0)
        return torch.relu(chosen) * 2 + 1, y.expand(chosen.shape[0], 3) * 2 + chosen.shape[0]


class NoInputRead(nn.Module):
    """An engine that reads nothing but a size, and a constant output."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.arange(x.shape[0]) * 2 + 1, torch.ones(3) + 2


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


@dataclass
class Case:
    model: nn.Module
    args: tuple[Any, ...]
    dynamic: Any = None
    more: tuple[tuple[Any, ...], ...] = ()


def _x(batch: int) -> Tensor:
    torch.manual_seed(batch)
    return torch.randn(batch, 5)


CASES = {
    "branches": Case(Branches(), (_x(4),), ({0: BATCH},), ((_x(9),), (-_x(2).abs(),))),
    "takes_number": Case(TakesNumber(), (_x(4), 3), ({0: BATCH}, Dim.AUTO), ((_x(9), 7), (_x(2), 2))),
    "unsaved_buffer": Case(UnsavedBuffer(), (_x(4),), ({0: BATCH},), ((_x(9),),)),
    "cache": Case(Cache(), (_x(2).unsqueeze(1), torch.tensor([3])), None, ((_x(2).unsqueeze(1), torch.tensor([8])),)),
    "twice": Case(Twice(), (_x(4),), ({0: BATCH},), ((_x(9),),)),
    "from_data": Case(FromData(), (_x(4), torch.ones(1, 3)), ({0: BATCH}, None), ((_x(9), torch.zeros(1, 3)),)),
    "no_input_read": Case(NoInputRead(), (_x(4),), ({0: BATCH},), ((_x(9),), (_x(2),))),
    "nothing": Case(Nothing(), (_x(4),), ({0: BATCH},), ((_x(9),),)),
}


@pytest.mark.parametrize("least", [1, pytest.param(5, marks=pytest.mark.slow)])  # of 5, most of it stays with PyTorch
@thinned("name", CASES, every=9)
def test_agrees_with_the_model(name: str, least: int) -> None:
    case = CASES[name]
    recipe = (copy.deepcopy(case.model), copy.deepcopy(case.args), {}, case.dynamic)
    program = trtdiag.compile(recipe, verify=False, force=True, min_segment_ops=least)
    file = io.BytesIO()
    torch.export.save(program.exported_program, file)
    file.seek(0)
    for run in (CompiledProgram(torch.export.load(file)), program):
        model = copy.deepcopy(case.model)
        for args in (case.args, *case.more):
            assert_agrees(run, model, *args)


@pytest.mark.slow  # quick: the case of sizes from data, above
def test_sizes_that_data_decides_trace_again() -> None:
    """A number that is only known at run time enters an engine, and the program is exported and compiled over."""
    case = CASES["from_data"]
    program = trtdiag.compile((case.model, case.args, {}, case.dynamic), verify=False, force=True, min_segment_ops=1)
    assert program.manifests
    module = program.module()
    again = torch.export.export(module, case.args, dynamic_shapes=({0: Dim("other", min=2, max=9)}, None))
    for args in (case.args, *case.more):
        assert_agrees(CompiledProgram(again), case.model, *args)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch._dynamo.reset()
        fast = torch.compile(module, backend="aot_eager", dynamic=True, fullgraph=True)
        for args in (case.args, *case.more):
            assert_agrees(fast, case.model, *args)


class Batched(nn.Module):
    """What torch.vmap runs stands between calls that begin and end it, and few others take part."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.vmap(lambda a, b: (self.linear(a)[:, None] * b).logsumexp(0))(x, y)


class Slope(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        slope: Tensor = torch.func.jacrev(lambda v: v.sin().sum())(x)
        return slope


def batched(first: Any) -> torch.export.ExportedProgram:
    ranges = ({0: Dim("batch", min=1, max=4), 1: first}, {0: Dim("batch", min=1, max=4), 1: Dim("u", min=1, max=20)})
    given = torch.randn(2, 6, 3), torch.randn(2, 5, 3)
    return torch.export.export(Batched(), given, dynamic_shapes=ranges)


def reloaded(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


OF_TORCH_FUNC = pytest.mark.skipif(
    torch.__version__ < "2.12", reason="torch 2.11 leaves calls of its own functions in such programs, and saves none"
)


@OF_TORCH_FUNC
def test_what_vmap_runs_over_a_batch_is_compiled() -> None:
    program = batched(Dim("t", min=2, max=30))
    for exported in (program, reloaded(program)):
        compiled = trtdiag.compile(exported, backend="reference", target="8.6")
        assert len(compiled.manifests) == 1
        for batch, t, u in ((1, 2, 1), (4, 30, 20), (3, 7, 5)):
            given = torch.randn(batch, t, 3), torch.randn(batch, u, 3)
            torch.testing.assert_close(compiled(*given), program.module()(*given))


@OF_TORCH_FUNC
def test_a_saved_program_that_torch_cannot_take_apart_is_refused() -> None:
    with pytest.raises(CaptureError, match="not-taken-apart"):
        trtdiag.analyze(reloaded(batched(2 * Dim("_t", min=1, max=15))))


@OF_TORCH_FUNC
def test_a_program_that_torch_func_left_without_its_input_is_refused() -> None:
    exported = torch.export.export(Slope(), (torch.randn(2, 3),), dynamic_shapes=({0: BATCH},))
    with pytest.raises(CaptureError, match="traced-tensor-kept"):
        trtdiag.analyze(exported)


class SortedAndBack(nn.Module):
    """As experts take their tokens in order: the way back is written into whole numbers that are not initialised."""

    def forward(self, x: Tensor) -> Tensor:
        order = torch.argsort(x.sum(1))
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return (x[order] * 2)[back] + 1


@pytest.mark.slow  # quick: what their values are, in tests/dtypes
def test_whole_numbers_that_are_not_initialised_stay_in_the_engine() -> None:
    program = torch.export.export(SortedAndBack(), (torch.randn(7, 3),), dynamic_shapes=({0: Dim("n", min=1, max=50)},))
    compiled = trtdiag.compile(program, backend="reference", target="8.6", require_full=True)
    for rows in (1, 13, 50):
        x = torch.randn(rows, 3)
        assert torch.equal(compiled(x), SortedAndBack()(x))
