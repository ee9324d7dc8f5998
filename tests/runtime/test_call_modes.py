"""What is set around a call of a compiled program, and how it is told to record its engines."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from tests.harness.rows import each
from tests.runtime.compiling import compiled
from trtdiag.engine.cuda_graph_choice import GraphChoice, RtxChoice, chosen_graphs, chosen_rtx
from trtdiag.errors import UserError
from trtdiag.options import CompileOptions
from trtdiag.runtime import execution
from trtdiag.runtime.compiled import CompiledProgram


class Mixed(nn.Module):
    """An engine, a product that stays with PyTorch, and an engine again."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 7)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(torch.mm(torch.relu(x), torch.ones(5, 5)) + 1) @ self.linear.weight.T


@pytest.fixture
def program() -> CompiledProgram:
    dims = {"x": {0: Dim("n", min=1, max=11)}}
    return compiled(Mixed().eval(), (torch.randn(3, 5),), dynamic_shapes=dims, keep=["aten.mm"])


@each("rows", [1, 7, 11])
def test_autocast_around_a_call_does_not_reach_it(program: CompiledProgram, rows: int) -> None:
    assert len(program.manifests) > 1
    x = torch.randn(rows, 5)
    expected = program(x)
    for _ in range(2):  # the second call takes the shorter way
        with torch.autocast("cpu", dtype=torch.bfloat16):
            actual = program(x)
            assert torch.is_autocast_enabled("cpu")
        assert actual.dtype is torch.float32
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_modes_of_torch(program: CompiledProgram) -> None:
    x = torch.randn(3, 5, requires_grad=True)
    for _ in range(2):
        assert not program(x).requires_grad
        assert torch.is_grad_enabled()
        with torch.inference_mode():
            assert program(x).is_inference()


class Seen:
    """What engines were told of graphs, call by call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.choices: list[GraphChoice | None] = []
        self.rtx: list[RtxChoice] = []
        check = execution.check_engine_inputs

        def checked(*args: object) -> None:
            self.choices.append(chosen_graphs())
            self.rtx.append(chosen_rtx())
            check(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(execution, "check_engine_inputs", checked)


def test_engines_are_told_of_graphs(program: CompiledProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    x = torch.randn(3, 5)
    assert program.cuda_graphs(3) is program
    for _ in range(2):
        program(x)
    assert {choice.most if choice else None for choice in seen.choices} == {3}
    assert chosen_graphs() is None
    seen.choices.clear()
    program.cuda_graphs(0)
    program(x)
    assert set(seen.choices) == {None}


def test_the_option_is_kept_in_the_file(tmp_path: Path) -> None:
    exported = torch.export.export(Mixed().eval(), (torch.randn(3, 5),))
    made = trtdiag.compile(exported, backend="reference", cuda_graphs=2, verify=False, min_segment_ops=1)
    trtdiag.save(made, tmp_path / "graphs.ep")
    loaded = trtdiag.load(tmp_path / "graphs.ep")
    assert loaded.options is not None
    assert loaded.options.cuda_graphs == 2
    assert CompileOptions().cuda_graphs is None


def test_graphs_that_nobody_asked_for_are_none(program: CompiledProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    CompiledProgram(program.exported_program, options=CompileOptions())(torch.randn(3, 5))
    assert set(seen.choices) == {None}


@each("most", [-1, 1.5, True, "4"])
def test_wrong_numbers_of_graphs(program: CompiledProgram, most: int) -> None:
    with pytest.raises(UserError) as caught:
        program.cuda_graphs(most)
    assert caught.value.reference == "wrong-option"


def test_engines_are_told_how_tensorrt_rtx_runs_them(
    program: CompiledProgram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen, file = Seen(monkeypatch), str(tmp_path / "kernels")
    options = CompileOptions(runtime_cache=file, rtx_cuda_graphs=True, kernel_specialization="eager")
    made = CompiledProgram(program.exported_program, options=options)
    made(torch.randn(3, 5))
    assert set(seen.rtx) == {RtxChoice(file, True, "eager")}
    seen.rtx.clear()
    assert made.rtx_runtime("other") is made
    made(torch.randn(3, 5))
    assert set(seen.rtx) == {RtxChoice("other")}
    assert chosen_rtx() == RtxChoice()
