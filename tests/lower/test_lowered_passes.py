"""Each pass by what it changes, and what it must leave alone; a pass that breaks the graph is named."""

from __future__ import annotations

import operator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import InputKind

from tests.lower.agreement import assert_lowered_agrees, lowered_of, targets
from trtdiag.errors import InternalError
from trtdiag.frontend.capture import capture
from trtdiag.lower import lowered as lowering
from trtdiag.lower.draft import Draft
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.lower.metadata import check_metadata
from trtdiag.lower.pass_order import PASSES, Pass
from trtdiag.lower.passes.constants import LIMIT_BYTES

X = (torch.randn(3, 6),)


def exported_of(module: nn.Module, example: tuple[Tensor, ...] = X) -> ExportedProgram:
    return export(module, example, dynamic_shapes=({0: Dim("batch", min=1, max=13)},))


def changed(lowered: Lowered, name: str) -> int:
    (count,) = (each.changed for each in lowered.passes if each.name == name)
    return count


def test_every_pass_has_a_reason_and_a_name_of_its_own() -> None:
    assert len({each.name for each in PASSES}) == len(PASSES)
    assert all(each.reason for each in PASSES)


def test_assertions_go_and_so_do_the_sizes_computed_for_them() -> None:
    class Checks(nn.Module):
        def forward(self, x: Tensor, n: Tensor) -> Tensor:
            count = n.item()
            torch._check(count >= 2)
            torch._check(count <= 9)
            return x + torch.zeros(count, 1, 1).sum()

    exported = export(Checks(), (X[0], torch.tensor(4)))
    assert any("assert" in str(node.target) for node in exported.graph.nodes)
    _, lowered = lowered_of(exported)
    assert not [name for name in targets(lowered) if "assert" in name or name.startswith("<built-in")]
    assert changed(lowered, "assertions") > 0


@pytest.mark.slow  # quick: tests/lower/test_precision_rules.py has the casts
def test_copies_that_change_nothing_go_and_casts_that_do_stay() -> None:
    class Copies(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = torch.nn.functional.dropout(x.clone().contiguous().detach() + 1, 0.5, training=False)
            return y.to(torch.float32) * 1, y.to(torch.float16)

    _, lowered = assert_lowered_agrees(exported_of(Copies()), X)
    assert targets(lowered) == {"aten.add.Tensor", "aten._to_copy.default"}


def test_an_input_that_is_returned_gets_an_op_of_its_own() -> None:
    class Returns(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return x, x.detach(), x + 1

    _, lowered = assert_lowered_agrees(exported_of(Returns()), X)
    assert "aten.clone.default" in targets(lowered)
    returned = lowered.graph_module.graph.output_node().args[0]
    assert all(node.op == "call_function" for node in returned)  # type: ignore[union-attr]  # a tuple of nodes
    assert [spec.arg.name for spec in lowered.signature.output_specs] == [node.name for node in returned]  # type: ignore[union-attr]  # as above


class Weights(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(6, width))
        self.second = self.first
        self.other = nn.Parameter(torch.randn(6, width))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.first.exp() * 2) + x @ (self.second.exp() * 2) + x @ (self.other.exp() * 2)


def folded(lowered: Lowered) -> list[Tensor]:
    return [value for name, value in lowered.tensors.items() if "folded" in name]


def test_what_depends_on_weights_alone_is_computed_and_shared_weights_stay_shared() -> None:
    module = Weights(5)
    _, lowered = assert_lowered_agrees(exported_of(module), X)
    assert "aten.exp.default" not in targets(lowered)
    assert len(folded(lowered)) == 2
    torch.testing.assert_close(folded(lowered)[0], module.first.exp() * 2, rtol=0, atol=0)
    kinds = [spec.kind for spec in lowered.signature.input_specs]
    assert kinds.index(InputKind.USER_INPUT) == len(kinds) - 1, "folded constants stand before the user's inputs"


@pytest.mark.parametrize(("beyond", "count"), [(0, 2), (1, 0)])
def test_folding_stops_at_its_limit(beyond: int, count: int) -> None:
    rows = 6 * torch.float32.itemsize
    width = LIMIT_BYTES // rows + beyond  # the last width that fits, and one more
    _, lowered = lowered_of(exported_of(Weights(width)))
    assert len(folded(lowered)) == count


def test_what_is_random_or_changed_is_not_folded() -> None:
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.ones(6))

        def forward(self, x: Tensor) -> Tensor:
            y = x + self.state.exp() + torch.rand(6)
            self.state.mul_(2)
            return y

    _, lowered = lowered_of(exported_of(Holds()))
    assert {"aten.exp.default", "aten.rand.default"} <= targets(lowered)
    assert not folded(lowered)


def test_axes_and_indices_count_from_the_front() -> None:
    class Axes(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            y = x.softmax(-1).unsqueeze(-2).sum((-1, -2))
            return y, x[:, -1], x[:, -4:-1], x[-1], x.cumsum(-1)

    _, lowered = assert_lowered_agrees(exported_of(Axes()), X)
    for node in lowered.graph_module.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            for value in torch.utils._pytree.tree_leaves((node.args[1:], node.kwargs)):
                assert not isinstance(value, int) or value >= 0, node.format_node()


@pytest.mark.slow  # quick: ops in place, in test_lowered_programs.py
def test_axes_of_the_result_and_of_what_is_broadcast_count_there() -> None:
    class Axes(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            y = torch.stack([x, x * 2], -1)
            return (
                torch.diag_embed(x, 1, -1, 0),
                torch.unsqueeze_copy(x, -2),
                torch.cat([torch.zeros(0), y, y], -2),  # a vector without elements counts for nothing
                torch.cosine_similarity(x[0], y.transpose(1, 2), -2),
                torch.linalg.vecdot(x[0], y.transpose(1, 2), dim=-1),
            )

    assert_lowered_agrees(exported_of(Axes()), X)


def test_a_number_is_written_in_one_way_only() -> None:
    class Numbers(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.aten.mul.Scalar(x, 3) + torch.ops.aten.add.Scalar(x.int(), 2, 5)

    _, lowered = assert_lowered_agrees(exported_of(Numbers()), X)
    assert "aten.mul.Scalar" not in targets(lowered)


class Scatters(nn.Module):
    """The first two have one place for each row; the others have not, or not for whole rows of the tensor."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        place = (x[:, 0] > 0).long()[:, None]
        there = torch.zeros(2, x.shape[1])
        all_rows = place.expand_as(x)
        own = (x > 0).long()
        return (
            there.scatter_add(0, all_rows, x),
            there.scatter_reduce(-2, all_rows, x, "amax", include_self=False),
            there.scatter_reduce(0, all_rows, x, "sum", include_self=False),
            there.scatter_add(0, own, x),
            torch.zeros(2, 9).scatter_add(0, all_rows, x),
            torch.zeros_like(x).scatter_add(1, place.expand_as(x), x),
        )


class ThereAndBack(nn.Module):
    """Reshapes that end where they began, and others."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        rows = x[:, 0] + 1
        column = rows.view(-1, 1)
        zeros = torch.zeros_like(rows).scatter_add(0, (rows * 0).long().unsqueeze(1).squeeze(1), rows)
        bits = column.view(torch.int32).view(-1)
        return rows, column, column.view(-1), rows.unsqueeze(1).flatten().unsqueeze(0).squeeze(0), zeros, bits


def test_reshapes_that_end_where_they_began_give_the_tensor_that_they_began_with() -> None:
    exported = exported_of(ThereAndBack())
    _, lowered = assert_lowered_agrees(exported, X)
    rows, column, again, back, _, bits = lowered.graph_module.graph.output_node().args[0]  # type: ignore[misc, union-attr]
    assert rows is again is back
    assert len({rows, column, bits}) == 3


def test_rows_that_were_a_column_are_the_tensor_before() -> None:
    class Column(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            place = (x[:, 0] > 0).long()
            return place, torch.zeros(2, x.shape[1]).scatter_add(0, place.view(-1, 1).expand_as(x), x)

    _, lowered = assert_lowered_agrees(exported_of(Column()), X)
    (added,) = lowered.graph_module.graph.find_nodes(op="call_function", target=torch.ops.aten.index_add.default)
    place, result = lowered.graph_module.graph.output_node().args[0]  # type: ignore[misc, union-attr]
    assert added is result
    assert added.args[2] is place


def test_scatters_of_whole_rows_are_ops_over_rows() -> None:
    _, lowered = assert_lowered_agrees(exported_of(Scatters()), X)
    found = [str(n.target) for n in lowered.graph_module.graph.nodes if "scatter" in n.name or "of_rows" in n.name]
    assert [name for name in found if "scatter" in name or "index" in name] == [
        "aten.index_add.default",
        "aten.index_reduce.default",
        "aten.scatter_reduce.two",
        *["aten.scatter_add.default"] * 3,
    ]


def _lose_a_value(draft: Draft) -> int:
    next(node for node in draft.graph.nodes if node.op == "call_function").meta.pop("val")
    return 1


def _lose_an_output(draft: Draft) -> int:
    draft.output.args = (draft.output.args[0][:-1],)  # type: ignore[index]  # a tuple
    return 1


def _lose_an_input(draft: Draft) -> int:
    draft.input_specs.pop()
    return 1


def _break_the_order(draft: Draft) -> int:
    last = [node for node in draft.graph.nodes if node.op == "call_function"][-1]
    next(iter(draft.graph.nodes)).prepend(last)
    return 1


@pytest.mark.parametrize("harm", [_lose_a_value, _lose_an_output, _lose_an_input, _break_the_order])
def test_a_pass_that_breaks_the_graph_is_named(harm: object, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Pass("harm", harm, "to be caught")  # type: ignore[arg-type]  # each has the type of a pass
    monkeypatch.setattr(lowering, "PASSES", (*PASSES, bad))
    with pytest.raises(InternalError, match="after the pass 'harm'"):
        lowered_of(exported_of(Weights(5)))


def test_a_program_without_a_graph_cannot_be_lowered() -> None:
    program = capture(exported_of(Weights(5)))
    checked = check_metadata(program)
    with pytest.raises(InternalError) as caught:
        lowering.lower(replace(program, exported=None), checked)
    assert caught.value.reference == "lower-without-graph"


@pytest.mark.slow  # quick: an input that is returned gets an op of its own
def test_getitem_of_a_decomposed_op_is_resolved() -> None:
    class Parts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat(x.unbind(1)[::2])

    _, lowered = assert_lowered_agrees(exported_of(Parts()), X)
    assert str(operator.getitem) not in targets(lowered)
