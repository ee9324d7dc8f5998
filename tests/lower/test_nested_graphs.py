"""Nested graphs: blocks of no_grad and autocast become ops of the graph, branches and loops stay with a limit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import while_loop
from torch._ops import HigherOrderOperator
from torch.export import Dim, ExportedProgram, export, load, save
from torch.nn import functional as F

from tests.lower.agreement import assert_lowered_agrees, assert_same, called, lowered_of, targets, user_outputs
from trtdiag.frontend.capture import capture
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.lower.metadata import check_metadata

X = (torch.randn(3, 4),)


def exported_of(module: nn.Module) -> ExportedProgram:
    return export(module, X, dynamic_shapes=({0: Dim("batch", min=1, max=13)},))


def pytree_of(flat: list[Tensor]) -> object:
    return torch.utils._pytree.tree_flatten((tuple(flat), {}))[1]


def calls(lowered: Lowered) -> list[HigherOrderOperator]:
    return [n.target for n in lowered.graph_module.graph.nodes if isinstance(n.target, HigherOrderOperator)]


class NoGrad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.lift(x)
        with torch.no_grad():
            angle = torch.outer(y.sum(1), torch.arange(4.0))
            with torch.enable_grad():
                z = F.hardswish(angle) * y
            self.count.add_(1)
            parts = z.chunk(2, -1)
        return (*parts, angle, self.count + 0)


def test_a_no_grad_block_becomes_ops_of_the_graph() -> None:
    torch.manual_seed(0)
    exported = exported_of(NoGrad())
    assert any(isinstance(node.target, HigherOrderOperator) for node in exported.graph.nodes)
    program, lowered = lowered_of(exported)
    assert not calls(lowered)
    assert lowered.limits == ()
    assert not dict(lowered.graph_module.named_children())
    assert lowered.guards == program.guards
    assert "aten.outer.default" not in targets(lowered), "what is inlined is decomposed like the rest"
    flat = [torch.randn(7, 4)]
    wanted = NoGrad()
    wanted.load_state_dict(exported.state_dict)
    assert_same(user_outputs(lowered, flat), list(wanted(*flat)))
    ops = [node for node in lowered.graph_module.graph.nodes if node.op == "call_function"]
    assert all("val" in node.meta and lowered.origins[node.name].stack.user for node in ops)
    assert lowered.signature.output_specs[0].target == "count"


@pytest.mark.slow  # quick: a no_grad block becomes ops of the graph, above
def test_a_loaded_no_grad_block_with_a_derived_dim(tmp_path: Path) -> None:
    torch.manual_seed(0)
    half = Dim("half", min=1, max=9)
    exported = export(NoGrad(), (torch.randn(4, 4),), dynamic_shapes=({0: 2 * half},))
    save(exported, tmp_path / "nested.pt2")
    program, lowered = lowered_of(load(tmp_path / "nested.pt2"))
    assert not calls(lowered)
    assert lowered.guards == program.guards
    flat = [torch.randn(6, 4)]
    spec = pytree_of(flat)
    assert_same(user_outputs(lowered, flat), called(exported.module(), spec, flat))


class Autocast(nn.Module):
    """Ops that are cast down, that are cast up, that take the widest, that are left; a block switched off; no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(4, 4)
        self.deep = nn.Conv1d(1, 3, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.lift(x)
            low = torch.softmax(y, -1) + 1
            high = F.mse_loss(low, x.to(torch.bfloat16))
            mixed = torch.cat([x, y], -1)
            deep = self.deep(x[:, None]).relu()
            with torch.no_grad():
                product = x @ x.t()
            with torch.autocast("cpu", enabled=False):
                off = self.lift(x)
        return y, low, high, mixed, deep, product, off, self.lift(x)


@pytest.mark.slow  # quick: an op that autocast changes inside is taken apart
def test_the_casts_of_autocast_become_ops() -> None:
    torch.manual_seed(0)
    exported = exported_of(Autocast())
    _, lowered = lowered_of(exported)
    assert lowered.limits == ()
    assert not calls(lowered)
    flat = [torch.randn(11, 4)]
    spec = pytree_of(flat)
    with torch.no_grad():
        got, eager = user_outputs(lowered, flat), called(exported.module(), spec, flat)
        torchs = called(exported.run_decompositions().module(), spec, flat)
    assert [value.dtype for value in got] == [value.dtype for value in eager]
    # The same casts and the same kernels; what is left is the order of sums in bfloat16's 8 bits.
    assert_same(got, eager, rtol=2**-7, atol=2**-7)
    assert_same(got, torchs, rtol=2**-7, atol=2**-7)


def test_metadata_of_an_autocast_block_is_no_defect() -> None:
    assert check_metadata(capture(exported_of(Autocast()))).defects == ()


class Inside(nn.Module):
    """einsum has no autocast of its own, the matrix product in it has."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.einsum("bi,bj->ij", x, x)


def test_an_op_that_autocast_changes_inside_is_taken_apart() -> None:
    exported = exported_of(Inside())
    inner = [str(n.target) for m in exported.graph_module.children() for n in m.graph.nodes]  # type: ignore[union-attr]  # graphs
    assert "aten.einsum.default" in inner
    _, lowered = lowered_of(exported)
    assert lowered.limits == ()
    assert {"aten._to_copy.default", "aten.bmm.default"} <= targets(lowered)
    flat = [torch.randn(11, 4)]
    (got,), (wanted,) = user_outputs(lowered, flat), called(exported.module(), pytree_of(flat), flat)
    assert got.dtype == wanted.dtype == torch.bfloat16
    assert_same([got], [wanted], rtol=2**-7, atol=2**-7)  # the kernel sums in float32 and rounds once


# Blocks without gradients and of autocast are quick by themselves.
@pytest.mark.parametrize(
    "around", ["nothing", *(pytest.param(each, marks=pytest.mark.slow) for each in ("no_grad", "autocast"))]
)
@pytest.mark.slow  # quick: tests/compiling/test_unusual_programs.py
def test_branches_stay_whole_with_a_limit(around: str) -> None:
    class Branches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            def both(v: Tensor) -> Tensor:
                return torch.cond(v.sum() > 0, lambda w: F.hardswish(w), lambda w: w - 1, (v,))

            if around == "no_grad":
                with torch.no_grad():
                    return both(x * 2) + 1
            if around == "autocast":
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    return both(x * 2) + 1
            return both(x * 2) + 1

    exported = export(Branches(), X, dynamic_shapes=({0: Dim("batch", min=2, max=13)},))
    _, lowered = assert_lowered_agrees(exported, X, beside_torch=False)
    (limit,) = lowered.limits
    assert "one of two nested graphs" in limit.why
    assert limit.target == "cond"
    (node,) = (n for n in lowered.graph_module.graph.nodes if isinstance(n.target, HigherOrderOperator))
    assert node.name == limit.node
    assert {"aten.mul.Tensor", "aten.add.Tensor"} <= targets(lowered)


@pytest.mark.slow  # quick: branches in autocast and casts of autocast, each by itself
def test_autocast_around_branches_reaches_into_them() -> None:
    class Branches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x @ x.t()
                z = torch.cond(y.sum() > 0, lambda w: w @ w.t(), lambda w: w.relu() @ w.t(), (x,))
            return z @ z

    exported = export(Branches(), X)
    assert any("_enter_autocast" in str(node.target) for node in exported.graph.nodes), "no nested graph, but two calls"
    assert check_metadata(capture(exported)).defects == ()
    _, lowered = lowered_of(exported)
    assert not [node for node in lowered.graph_module.graph.nodes if "autocast" in str(node.target)]
    for factor in (1.0, -1.0):
        flat = [X[0] * factor]
        (got,), (wanted,) = user_outputs(lowered, flat), called(exported.module(), pytree_of(flat), flat)
        assert got.dtype == wanted.dtype == torch.bfloat16
        assert_same([got], [wanted], rtol=2**-7, atol=2**-7)  # as above


@pytest.mark.slow  # quick: branches, here
def test_loops_stay_whole_with_a_limit() -> None:
    class Loops(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            def step(i: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
                return i + 1, v * 2

            count, y = while_loop(lambda i, v: i < 3, step, (torch.zeros((), dtype=torch.int64), x))
            return y + count

    _, lowered = lowered_of(export(Loops(), X))
    assert ["as long as a condition" in limit.why for limit in lowered.limits] == [True]


@pytest.mark.slow  # quick: a block without gradients becomes ops of the graph
def test_a_name_that_the_block_shares_with_an_op_outside_is_made_unique() -> None:
    class Names(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = torch.sin(x)
            with torch.no_grad():
                z = torch.sin(y) * 2
            return torch.sin(z + y)

    _, lowered = assert_lowered_agrees(exported_of(Names()), X)
    names = [node.name for node in lowered.graph_module.graph.nodes]
    assert len(names) == len(set(names))
    assert sum(str(node.target) == "aten.sin.default" for node in lowered.graph_module.graph.nodes) == 3
