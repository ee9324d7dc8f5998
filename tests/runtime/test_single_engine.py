"""Programs that are one engine: called the short way, where that is the same."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.runtime.compiling import NARROW, compiled
from trtdiag.errors import ShapeOutOfRangeError, UserError
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.runtime import engine_cache
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.segment_program import segment_program

ROWS = {0: Dim("rows", min=1, max=11)}


class Swapped(nn.Module):
    """Two results in another order than they are computed, one of them twice, and inputs that one does not need."""

    def forward(self, x: Tensor, unused: Tensor, y: Tensor) -> dict[str, Tensor]:
        total = torch.relu(x) + y
        product = total * y
        return {"late": product, "early": total, "again": product}


def _swapped() -> CompiledProgram:
    x, unused, y = (torch.randn(3, 5) for _ in range(3))
    return compiled(Swapped(), (x, unused, y), dynamic_shapes={"x": ROWS, "unused": ROWS, "y": ROWS})


class Counted:
    """How often the op was called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from trtdiag.runtime import execution

        self.calls = 0
        real = execution.execute

        def execute(*args: object) -> list[Tensor]:
            self.calls += 1
            return real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(execution, "execute", execute)


def test_the_short_way_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    program, counted = _swapped(), Counted(monkeypatch)
    for rows in (1, 7, 11, 1, 7, 11):
        x, y = torch.randn(rows, 5), torch.randn(rows, 5)
        actual, expected = program(x, x, y), Swapped()(x, x, y)
        assert list(actual) == list(expected)
        for name, tensor in expected.items():
            torch.testing.assert_close(actual[name], tensor)
    assert counted.calls == 3  # the first call of each size


def test_sizes_are_checked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    program, counted = _swapped(), Counted(monkeypatch)
    x = torch.randn(11, 5)
    for _ in range(2):
        program(x, x, x)
    many = torch.randn(12, 5)
    with pytest.raises(ShapeOutOfRangeError, match="1 to 11"):
        program(many, many, many)
    with pytest.raises(UserError, match=r"float64"):
        program(x.double(), x, x)
    with pytest.raises(ShapeOutOfRangeError, match="as another input"):
        program(x, x, x[:3])
    assert counted.calls == 1


def test_fake_tensors_go_the_long_way() -> None:
    program = _swapped()
    x = torch.randn(7, 5)
    program(x, x, x)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = mode.from_tensor(x)
        assert isinstance(program(fake, fake, fake)["late"], torch._subclasses.FakeTensor)


def test_parameters_and_gradients() -> None:
    program = _swapped()
    x = nn.Parameter(torch.randn(7, 5))
    for _ in range(3):
        assert not program(x, x, x)["late"].requires_grad


class Tokens(nn.Module):
    """Integers of 64 bits go in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(31, 5)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        found = self.words(ids)
        return found.argmax(-1), torch.tanh(found)


def test_casts_at_the_edge_go_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Tokens().eval()
    program = compiled(model, (torch.randint(0, 31, (3,)),), dynamic_shapes={"ids": ROWS}, plan=NARROW, target="8.6")
    casts = program.exported_program.graph.find_nodes(op="call_function", target=torch.ops.aten._to_copy.default)
    assert len(casts) == 1  # of the output: the input enters as the pairs of int32 that it is
    counted = Counted(monkeypatch)
    for rows in (1, 7, 11, 7, 11, 1):
        ids = torch.randint(0, 31, (rows,))
        for actual, expected in zip(program(ids), model(ids), strict=True):
            torch.testing.assert_close(actual, expected)
    assert counted.calls == 3


class Between(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(torch.cumsum(torch.tanh(x), 0) + 1), x


class Running(nn.Module):
    """A sum that goes on from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(5))
        self.total: Tensor

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.total.add_(x.sum(0))
        return torch.relu(x) * 2, x + self.total


@pytest.mark.parametrize("model", [Between(), Running()])
def test_other_programs_go_the_long_way(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = copy.deepcopy(model)
    program = compiled(model, (torch.randn(3, 5),), dynamic_shapes={"x": ROWS}, keep=["aten.cumsum"])
    counted = Counted(monkeypatch)
    for rows in (7, 7, 7):
        x = torch.randn(rows, 5)
        for actual, expected in zip(program(x), beside(x), strict=True):
            torch.testing.assert_close(actual, expected)
    assert counted.calls == 3 * len(program.manifests)


def test_engines_are_freed_with_their_program() -> None:
    gc.freeze()  # what other tests left is not looked through below
    program = _swapped()
    x = torch.randn(7, 5)
    for _ in range(2):
        program(x, x, x)
    (manifest,) = program.manifests
    runner = weakref.ref(engine_cache.CACHE.get(manifest, torch.empty(0), "cpu"))
    del program
    gc.collect()
    assert runner() is None


def test_pytorch_s_code_in_the_place_of_an_engine_takes_the_same_pairs() -> None:
    model, plan = Tokens().eval(), PartitionOptions(min_segment_ops=0)
    exported = torch.export.export(model, (torch.randint(0, 31, (3,)),), dynamic_shapes={"ids": ROWS})
    state = compile_in_stages(exported, CompileOptions("8.6", "reference", partition=plan, verify=False))
    (one,) = state.converted
    assert [crossing.as_pairs for crossing in one.inputs] == [True]
    alone = segment_program(state.plan.source, one, state.plan.sizes.opt, "cpu").module()
    for rows in (1, 7, 11):
        ids = torch.randint(0, 31, (rows,))
        for crossing, actual in zip(one.outputs, alone(one.inputs[0].entering(ids)), strict=True):
            expected = dict(zip(("argmax", "tanh"), model(ids), strict=True))[crossing.node]
            torch.testing.assert_close(actual.to(crossing.program_dtype), expected)
