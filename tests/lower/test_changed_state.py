"""What a program changes: buffers, caches, running statistics and inputs become outputs, call after call the same."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import InputKind, OutputKind
from torch.nn import functional as F

from tests.lower.agreement import keep_nothing, lowered_of, targets
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.lower.preserved_ops import keeps_by_default


class State:
    """Calls a lowered graph as a runtime would: what it returns for a buffer is the buffer of the next call."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        specs = lowered.signature.input_specs
        self._names = {spec.target: spec.arg.name for spec in specs if spec.target is not None}
        self.tensors = dict(lowered.tensors)

    def __call__(self, *flat: Tensor) -> list[Tensor]:
        given = iter(flat)
        placeholders = [n.name for n in self._lowered.graph_module.graph.nodes if n.op == "placeholder"]
        values = [
            next(given) if spec.kind is InputKind.USER_INPUT else self.tensors[name]
            for name, spec in zip(placeholders, self._lowered.signature.input_specs, strict=True)
        ]
        with torch.no_grad():
            returned = self._lowered.graph_module(*values)
        out = []
        for value, spec in zip(returned, self._lowered.signature.output_specs, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                self.tensors[self._names[spec.target]] = value
            elif spec.kind is OutputKind.USER_OUTPUT:
                out.append(value)
        return out

    def held(self, target: str) -> Tensor:
        tensor: Tensor = self.tensors[self._names[target]]
        return tensor


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.again = nn.BatchNorm1d(4, momentum=0.3, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.norm(x).relu()) + self.norm.running_mean


def exported_of(module: nn.Module) -> ExportedProgram:
    return export(module, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("batch", min=2, max=13)},))


# Quick: what a user gets.
@pytest.mark.parametrize("keep", [keeps_by_default, pytest.param(keep_nothing, marks=pytest.mark.slow)])
def test_running_statistics_of_a_training_batch_norm(keep: object) -> None:
    torch.manual_seed(0)
    module = Norms().train()
    _, lowered = lowered_of(exported_of(copy.deepcopy(module)), keep)
    assert lowered.limits == ()
    assert not [name for name in targets(lowered) if "legit" in name]
    run = State(lowered)
    for batch in (2, 3, 13):
        x = torch.randn(batch, 4)
        with torch.no_grad():
            wanted = module(x)
        (got,) = run(x)
        # Another order of the sums over the batch than the kernel of the whole op.
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
        for name, buffer in module.named_buffers():
            torch.testing.assert_close(run.held(name), buffer, rtol=1e-5, atol=1e-6)


class Legit(nn.Module):
    """The op that says in its schema that it changes its running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        op = torch.ops.aten._native_batch_norm_legit.default
        y, mean, _ = op(x, None, None, self.mean, self.var, self.training, 0.1, 1e-5)
        return y, mean * 2


@pytest.mark.parametrize("training", [True, False])
def test_a_batch_norm_that_names_what_it_changes(training: bool) -> None:
    module = Legit().train(training)
    _, lowered = lowered_of(exported_of(copy.deepcopy(module)))
    assert lowered.limits == ()
    run = State(lowered)
    for batch in (2, 3, 13):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(tuple(run(x)), module(x), rtol=1e-4, atol=1e-5)
        for name, buffer in module.named_buffers():
            torch.testing.assert_close(run.held(name), buffer, rtol=1e-5, atol=1e-6)


class Cache(nn.Module):
    """A static cache, as a buffer and as a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 8, 4), persistent=False)
        self.values = torch.zeros(2, 8, 4)
        self.steps = torch.zeros((), dtype=torch.int64)

    def forward(self, x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        self.steps.add_(1)
        self.keys.index_copy_(1, at, x)
        self.values[:, at] = x * 2
        self.values[:, 7:].copy_(x[:, :1].to(torch.float64))
        start = torch.tensor([1.0, 2.0, 3.0, 4.0])
        start.add_(self.steps)
        return self.keys @ self.values.mT, start


class Narrowed(nn.Module):
    """Parts of a buffer that ``narrow`` shows are written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(2, 7))

    def forward(self, x: Tensor) -> Tensor:
        for start, length in ((0, 2), (3, 1), (-1, 1), (-4, 2), (0, 0)):
            self.state.narrow(1, start, length).copy_(x[:, :length] + self.state[:, :1] + start)
        return self.state + 1


def test_parts_that_narrow_shows_are_written() -> None:
    module = Narrowed()
    _, lowered = lowered_of(export(copy.deepcopy(module), (torch.ones(2, 7),)))
    run = State(lowered)
    for _ in range(3):
        x = torch.randn(2, 7)
        (got,) = run(x)
        torch.testing.assert_close(got, module(x), rtol=0, atol=0)
        torch.testing.assert_close(run.held("state"), module.state, rtol=0, atol=0)


def test_a_cache_that_changes_from_call_to_call() -> None:
    example = (torch.randn(2, 3, 4), torch.tensor([0, 1, 2]))
    shapes = ({1: Dim("new", min=1, max=8)}, {0: Dim("new", min=1, max=8)})
    module = Cache()
    exported = export(copy.deepcopy(module), example, dynamic_shapes=shapes)
    module.steps.copy_(exported.constants["steps"])  # tracing counts one step (torch 2.13)
    _, lowered = lowered_of(exported)
    assert lowered.limits == ()
    changed = {spec.target for spec in lowered.signature.output_specs if spec.kind is OutputKind.BUFFER_MUTATION}
    assert changed == {"keys", "values", "steps"}
    kinds = {spec.target: spec.kind for spec in lowered.signature.input_specs if spec.target in changed}
    assert set(kinds.values()) == {InputKind.BUFFER}, "a constant that changes is a buffer"
    assert "aten.copy.default" not in targets(lowered)
    run = State(lowered)
    for positions in ([0, 1, 2], [3], [4, 5, 6, 7, 0]):
        x, at = torch.randn(2, len(positions), 4), torch.tensor(positions)
        wanted = module(x, at)
        for got, value in zip(run(x, at), wanted, strict=True):
            torch.testing.assert_close(got, value)
    for name in changed:
        torch.testing.assert_close(run.held(str(name)), getattr(module, str(name)), rtol=0, atol=0)


@pytest.mark.slow  # quick: tests/lower/test_lowered_programs.py has it for all programs
def test_the_program_keeps_its_own_roles_and_tensors() -> None:
    exported = export(Cache(), (torch.randn(2, 3, 4), torch.tensor([0, 1, 2])))
    before = str(exported.graph_signature)
    lowered_of(exported)
    assert str(exported.graph_signature) == before
    assert not exported.constants["values"].any()


def test_an_instance_norm_that_tracks_statistics_says_so() -> None:
    module = nn.InstanceNorm1d(4, track_running_stats=True).train()
    _, lowered = lowered_of(export(module, (torch.randn(2, 4, 5),)))
    assert any("running statistics" in limit.why for limit in lowered.limits)


def test_dropout_in_place_that_drops_nothing_goes() -> None:
    class Drops(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            return F.dropout2d(F.dropout(y, 0.3, False, inplace=True), 0.3, False, inplace=True) + 1

    _, lowered = lowered_of(export(Drops(), (torch.randn(2, 4, 5),)))
    assert lowered.limits == ()
    assert targets(lowered) == {"aten.mul.Tensor", "aten.add.Tensor"}
