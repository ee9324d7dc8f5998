"""Modules that call compiled programs are exported, saved and loaded like others, with sizes that change."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from tests.harness.rows import thinned
from tests.runtime.compiling import compiled
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_nodes import engine_nodes


class Layer(nn.Module):
    """One engine."""

    def __init__(self, wide: int, out: int) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.linear = nn.Linear(wide, out).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x))


class Apart(nn.Module):
    """Two engines with an op of PyTorch between, results by name, and a size as result."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first, self.last = (nn.Linear(5, 5) for _ in range(2))

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"y": torch.relu(self.last(torch.erfinv(torch.tanh(self.first(x)) / 2))), "rows": x.shape[0]}


class WithoutInputs(nn.Module):
    """An engine that takes nothing: its results are the same at each call."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.erfinv(x), torch.arange(7).float() * 2 + 1


class SizesInside(nn.Module):
    """Takes its size into what it computes."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(x) * torch.arange(x.shape[0]).float()[:, None], x.new_ones(2 * x.shape[0])


class FromData(nn.Module):
    """The data decides a size."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x[torch.nonzero(x.sum(1) > 0).squeeze(1)]) * 2


class Calling(nn.Module):
    """Calls programs one after the other, deep in its own modules or as modules of their own."""

    def __init__(self, *programs: CompiledProgram, deep: bool = False, as_modules: bool = False) -> None:
        super().__init__()
        self.programs: Any = nn.ModuleList(each.module() for each in programs) if as_modules else programs
        self.inner = Calling(*programs) if deep else None

    def forward(self, x: Any) -> Any:
        if self.inner is not None:
            return self.inner(x)
        for program in self.programs:
            x = program(x)
        return x


X = (torch.linspace(-0.9, 0.9, 35).reshape(7, 5),)
DIMS = {"auto": Dim.AUTO, "dynamic": Dim.DYNAMIC, "named": Dim("rows", min=3, max=41), "whole": Dim("n", min=1, max=64)}
SIZES = {"auto": (2, 7, 64), "dynamic": (2, 7, 64), "named": (3, 7, 41), "whole": (1, 7, 64)}


def _made(model: nn.Module, wide: int = 5) -> CompiledProgram:
    return compiled(model, (torch.randn(7, wide),), None, ({0: Dim("batch", min=1, max=64)},), keep=["aten.erfinv"])


def _saved_and_loaded(exported: torch.export.ExportedProgram) -> nn.Module:
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    buffer.seek(0)
    module: nn.Module = torch.export.load(buffer).module()
    return module


# Quick: one without and one with a size of data.
@pytest.mark.slow  # quick: test_several_programs_are_exported_as_one
@thinned("model", [Layer(5, 7), Apart(), WithoutInputs(), SizesInside(), FromData()], ids=type, every=9)
@pytest.mark.parametrize(
    ("dims", "strict", "called"),
    [
        ("auto", False, False),
        ("whole", False, True),
        pytest.param("named", True, True, marks=pytest.mark.slow),
        pytest.param("dynamic", True, False, marks=pytest.mark.slow),
        pytest.param("auto", True, True, marks=pytest.mark.slow),
        pytest.param("named", False, True, marks=pytest.mark.slow),
        pytest.param("whole", True, False, marks=pytest.mark.slow),
        pytest.param(None, False, True, marks=pytest.mark.slow),
        pytest.param(None, True, True, marks=pytest.mark.slow),
    ],
)
def test_what_calls_a_compiled_program_is_exported(
    model: nn.Module, dims: str | None, strict: bool, called: bool
) -> None:
    program = _made(model)
    for _ in range(2 * called):
        program(*X)
    shapes = ({0: DIMS[dims]},) if dims else None
    loaded = _saved_and_loaded(torch.export.export(Calling(program), X, dynamic_shapes=shapes, strict=strict))
    for size in SIZES[dims] if dims else (7,):
        x = torch.rand(size, 5) - 0.5
        torch.testing.assert_close(loaded(x), model(x))
        torch.testing.assert_close(program(x), model(x))  # which runs as before


def test_the_case_has_an_engine_without_inputs() -> None:
    assert () in {manifest.inputs for manifest in _made(WithoutInputs()).manifests}


@pytest.mark.parametrize("as_modules", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_several_programs_are_exported_as_one(strict: bool, as_modules: bool, tmp_path: Any) -> None:
    first, last = Layer(5, 7), Layer(7, 3)
    programs = _made(first), _made(last, 7), _made(nn.Tanh(), 3)
    calling = Calling(*programs, deep=True, as_modules=as_modules)
    exported = torch.export.export(calling, X, dynamic_shapes=({0: Dim.AUTO},), strict=strict)
    assert len(engine_nodes(exported)) == 3
    trtdiag.save(CompiledProgram(exported), tmp_path / "all.ep")
    for read in (_saved_and_loaded(exported), trtdiag.load(tmp_path / "all.ep")):
        for size in (2, 64):
            x = torch.randn(size, 5)
            torch.testing.assert_close(read(x), torch.tanh(last(first(x))))


def test_a_range_that_the_engine_does_not_take_is_refused_in_the_export() -> None:
    program = _made(Layer(5, 7))
    with pytest.raises(Exception, match=r"64|not built for|specialized|Constraints violated"):
        torch.export.export(Calling(program), X, dynamic_shapes=({0: Dim("n", min=1, max=65)},))
    with pytest.raises(Exception, match=r"5|not built for"):
        torch.export.export(Calling(program), (torch.randn(7, 6),))


# Quick: torch's own default.
@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_autocast_around_an_export_does_not_reach_the_program(strict: bool) -> None:
    program = _made(Apart())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        exported = torch.export.export(Calling(program), X, dynamic_shapes=({0: Dim.AUTO},), strict=strict)
    loaded = _saved_and_loaded(exported)
    for size in (2, 64):
        x = torch.randn(size, 5)
        torch.testing.assert_close(loaded(x), Apart()(x))
