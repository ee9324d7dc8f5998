"""Lowering of hand-made programs: live, loaded, with derived dims, in place, with nested graphs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export, load, save
from torch.export.graph_signature import OutputKind
from torch.nn import functional as F

from tests.lower.agreement import (
    assert_lowered_agrees,
    assert_same,
    called,
    copies,
    ends,
    inputs_at,
    lowered_of,
    targets,
    user_outputs,
)
from trtdiag.frontend.capture import capture
from trtdiag.frontend.torch_private import shape_env_of


class Mixed(nn.Module):
    """A bit of everything that is decomposed, a size in an argument, and a guard of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(6, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.register_buffer("shift", torch.randn(8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = F.hardswish(self.lift(x)) + self.shift.abs()
        y = self.attention(y, y, y)[0]
        left, right = y.chunk(2, -1)
        z = torch.addcmul(left, right, right, value=0.5).reshape(x.shape[0] * x.shape[1], 4)
        if x.shape[1] % 2 == 1:
            z = z + 1
        return z.std(-1), torch.einsum("bti,bsi->bts", y, y)


EXAMPLE = (torch.randn(2, 6, 6),)


@lru_cache(maxsize=1)
def mixed() -> ExportedProgram:
    """Nothing changes it: a test below looks."""
    torch.manual_seed(0)
    length = 2 * Dim("half", min=1, max=11)
    return export(Mixed().eval(), EXAMPLE, dynamic_shapes=({0: Dim("batch", min=1, max=5), 1: length},))


@pytest.mark.slow  # the quick run has the loaded one, below
def test_a_live_program_with_a_derived_dim() -> None:
    exported = mixed()
    program, lowered = assert_lowered_agrees(exported, EXAMPLE)
    assert lowered.limits == ()
    assert lowered.guards == program.guards
    assert "aten.linear.default" in targets(lowered)
    assert not {"aten.einsum.default", "aten.addcmul.default", "aten.chunk.default"} & targets(lowered)


# torch reads what our reader reads: test_archive_round_trip.py has that in the quick run.
@pytest.mark.slow  # quick: a loaded block with a derived dim, in test_nested_graphs.py
@pytest.mark.parametrize("own_reader", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_loaded_program_with_a_derived_dim_keeps_its_guards(own_reader: bool, tmp_path: Path) -> None:
    exported = mixed()
    save(exported, tmp_path / "mixed.pt2")
    loaded = load(tmp_path / "mixed.pt2")
    with pytest.raises(AssertionError, match=r"expected sympy\.Symbol"):
        loaded.run_decompositions()  # the reason why lowering does not rest on it; when this passes, compare with it
    program = capture(tmp_path / "mixed.pt2" if own_reader else loaded)
    _, lowered = lowered_of(program)
    assert lowered.limits == ()
    assert lowered.guards == program.guards
    assert any("% 2" in str(guard.condition) or "Mod" in str(guard.condition) for guard in lowered.guards)
    flat = list(EXAMPLE)
    spec = torch.utils._pytree.tree_flatten((EXAMPLE, {}))[1]
    points = list(ends(program))
    assert points
    for point in points:
        there = inputs_at(program, flat, point)
        assert_same(user_outputs(lowered, there), called(exported.module(), spec, there))


@pytest.mark.slow  # quick: each analysis looks whether its program is as it was
def test_the_program_and_its_shape_env_stay_as_they_were() -> None:
    exported = mixed()
    env = shape_env_of(exported.graph_module)
    assert env is not None
    text, guards = str(exported.graph), [str(guard.expr) for guard in env.guards]
    ranges, replaced = dict(env.var_to_range), dict(env.replacements)
    metas = [dict(node.meta) for node in exported.graph.nodes]
    lowered_of(exported)
    assert str(exported.graph) == text
    assert [str(guard.expr) for guard in env.guards] == guards
    assert dict(env.var_to_range) == ranges
    assert dict(env.replacements) == replaced
    assert all(list(node.meta) == list(meta) for node, meta in zip(exported.graph.nodes, metas, strict=True))
    assert "evaluate_expr" not in vars(env)


@pytest.mark.slow  # quick: what calls become, here
def test_equal_calls_are_traced_once() -> None:
    class Once(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.hardswish(x)

    class Often(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(7):
                x = F.hardswish(x)
            return x

    dims = ({0: Dim("batch", min=1, max=13)},)
    once = lowered_of(export(Once(), (torch.randn(3, 5),), dynamic_shapes=dims))[1]
    often = lowered_of(export(Often(), (torch.randn(3, 5),), dynamic_shapes=dims))[1]
    assert often.decomposed == 7 * once.decomposed
    assert often.traced == once.traced


def test_the_same_tensor_twice_and_two_tensors_of_one_size_are_not_confused() -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            return torch.addcmul(x, x, x), torch.addcmul(x, y, x), torch.addcmul(y, x, y)

    example = (torch.randn(3, 5), torch.randn(3, 5))
    batch = Dim("batch", min=1, max=13)
    exported = export(Net(), example, dynamic_shapes=({0: batch}, {0: batch}))
    _, lowered = assert_lowered_agrees(exported, example)
    assert lowered.traced < 6


@pytest.mark.slow  # quick: lines of findings in tests/report, of engines in tests/compiling
def test_spliced_ops_have_the_source_line_and_module_of_their_op() -> None:
    exported = mixed()
    program, lowered = lowered_of(exported)
    spliced = [name for name in lowered.origins if "__" in name]
    assert len(spliced) > 5
    for name in spliced:
        assert lowered.origins[name] == program.origins[name.partition("__")[0]]
    assert any(origin.stack.user and "hardswish" in origin.stack.user.code for origin in lowered.origins.values())


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        self.count.add_(1)
        y = self.act(x * 2)
        whole = y.transpose(0, 1)
        y[:, 0] = -1.0
        y[:, 1:3].mul_(x[:, 1:3])
        half = torch.zeros(x.shape[0], 4, dtype=torch.int32)
        half.add_(torch.ones(4, dtype=torch.int64))
        return y, whole + 0, self.count + 0, half


def test_in_place_ops_become_functional_and_a_changed_buffer_an_output() -> None:
    example = (torch.randn(3, 5),)
    exported = export(InPlace(), example, dynamic_shapes=({0: Dim("batch", min=1, max=13)},))
    _, lowered = lowered_of(exported)
    assert lowered.limits == ()
    for batch in (1, 3, 13):
        x = torch.randn(batch, 5)
        assert_same(user_outputs(lowered, [x]), list(InPlace()(x)))
    changed = lowered.signature.output_specs[0]
    assert (changed.kind, changed.target) == (OutputKind.BUFFER_MUTATION, "count")
    returned = lowered.graph_module(*lowered.arguments([torch.randn(2, 5)]))
    assert returned[0].tolist() == [1.0, 1.0, 1.0]
    assert lowered.tensors["b_count"].tolist() == [0.0, 0.0, 0.0], "the program's buffer is not written"
    assert not [name for name in targets(lowered) if "_." in name]


def test_a_changed_input_is_an_output() -> None:
    class Writes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x.mul_(2)
            return x + 1

    exported = export(Writes(), (torch.randn(3, 5),), dynamic_shapes=({0: Dim("batch", min=1, max=13)},))
    _, lowered = lowered_of(exported)
    x = torch.randn(7, 5)
    doubled, more = lowered.graph_module(*lowered.arguments([x]))
    assert_same([doubled, more], [2 * x, 2 * x + 1])
    assert (lowered.signature.output_specs[0].kind, lowered.signature.output_specs[0].target) == (
        OutputKind.USER_INPUT_MUTATION,
        "x",
    )


def test_writes_through_views_of_tensors_with_gaps_and_through_views_that_no_schema_tells() -> None:
    class Writes(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            last, turned, same = x[..., -1].flatten(), x.transpose(0, 1).reshape(3, 2, -1), x.type_as(x)
            high = torch.atleast_3d(x)
            last[0] = 3.0
            high.mul_(2)
            turned[0].add_(1)
            x.transpose(0, 1).unflatten(0, (2, 3)).sub_(0.5)
            x[:, 0].reshape(-1)[:2].copy_(torch.zeros(2))
            return last + 0, turned + 0, same + 0, high + 0, x + 0

    example = (torch.randn(4, 6),)
    _, lowered = assert_lowered_agrees(export(Writes(), example, dynamic_shapes=({0: Dim("batch", min=2)},)), example)
    assert lowered.limits == ()


class Reshapes(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x * 2
        turned, part = x.transpose(0, 1).reshape(-1), x[:, :3].contiguous()
        turned.add_(1)
        part.mul_(3)
        return x + 0, turned + part.sum()


@pytest.mark.slow  # quick: test_reshapes_that_no_later_read_tells_from_copies_are_made_functional
def test_reshapes_that_are_views_of_one_row_alone_are_not_taken_for_copies() -> None:
    example = (torch.randn(4, 6),)
    for batch in (Dim("batch"), Dim("batch", min=1, max=13)):
        _, lowered = assert_lowered_agrees(export(Reshapes(), example, dynamic_shapes=({0: batch},)), example)
        assert {limit.why for limit in lowered.limits} >= {
            "whether aten.reshape.default copies what it changes or makes a view of it depends on sizes"
        }


def test_reshapes_that_no_later_read_tells_from_copies_are_made_functional() -> None:
    class Relu(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            heads = (x * 2).unflatten(-1, (2, 3)).transpose(0, 1)
            return F.relu(heads.reshape(-1, 3), inplace=True).add_(1)

    example = (torch.randn(4, 6),)
    _, lowered = assert_lowered_agrees(export(Relu(), example, dynamic_shapes=({0: Dim("batch")},)), example)
    assert lowered.limits == ()


def test_reshapes_that_are_made_after_the_change_show_it_as_views_and_as_copies() -> None:
    class Added(nn.Module):
        def __init__(self, *, before: bool) -> None:
            super().__init__()
            self.before = before

        def forward(self, x: Tensor) -> Tensor:
            heads = (x * 2).unflatten(-1, (2, 3)).transpose(0, 1)
            early = heads.reshape(-1) if self.before else heads
            heads += 1
            late = heads.contiguous().view(2, -1)
            return late.sum(1) + early.sum()

    example, shapes = (torch.randn(4, 6),), ({0: Dim("batch", min=1)},)
    _, lowered = assert_lowered_agrees(export(Added(before=False), example, dynamic_shapes=shapes), example)
    assert lowered.limits == ()
    _, lowered = assert_lowered_agrees(export(Added(before=True), example, dynamic_shapes=shapes), example)
    assert any("reshape.default copies what it changes or makes a view" in limit.why for limit in lowered.limits)


def test_what_reads_the_order_in_memory_finds_it_as_it_was() -> None:
    class Order(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            turned = x.unflatten(1, (2, 3)).transpose(1, 2)
            wide, plain = (
                turned.contiguous().view(torch.float64),
                (turned * 2).clone(memory_format=torch.contiguous_format),
            )
            return wide, plain.view(torch.int16), plain.as_strided((3, 2), (2, 1)), turned.view(torch.int32)

    example = (torch.randn(4, 6),)
    assert_lowered_agrees(export(Order(), example, dynamic_shapes=({0: Dim("batch", min=1)},)), example)


def test_slices_that_data_decide_are_views_where_they_take_all() -> None:
    class Item(nn.Module):
        def forward(self, x: Tensor, n: Tensor) -> Tensor:
            x, size = x * 2, n.item()
            torch._check(size >= 2)
            torch._check(size <= x.shape[1])
            x[:, :size].reshape(-1).mul_(3)
            return x + 1

    exported = export(Item(), (torch.randn(4, 6), torch.tensor(5)))
    _, lowered = lowered_of(exported)
    for size in (2, 5, 6):
        given = [torch.randn(4, 6), torch.tensor(size)]
        assert_same(user_outputs(lowered, given), [exported.module()(*copies(given))])


def test_views_that_ops_hide_see_later_writes() -> None:
    class Hides(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            turned, grid = torch.einsum("ij->ji", x), torch.meshgrid(y, y, indexing="ij")
            wide, (one,) = torch.broadcast_tensors(x, y), [torch.cartesian_prod(y)]
            high, edges = torch.atleast_3d([x, y]), torch.tensor([0.0, 1.0, 2.0])
            bins = torch.histogramdd(x[:, :1] + 0, [edges])[1]
            x.add_(1)
            y.mul_(2)
            turned.sub_(3)
            edges.add_(5)
            more = high[0] + 0, high[1] + 0, bins[0] + 0
            return *more, turned + 0, grid[1] + 0, wide[0] + 0, wide[1] + 0, one + 0, torch.einsum("ij,j->i", x, y)

    example = (torch.randn(4, 6), torch.randn(6))
    _, lowered = assert_lowered_agrees(export(Hides(), example), example)
    assert lowered.limits == ()


def test_pieces_that_torch_calls_unsafe_are_views() -> None:
    class Pieces(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            half, part = torch.unsafe_chunk(x, 2)[1], torch.unsafe_split(x, 4, 1)[0]
            half.mul_(4)
            x.add_(1)
            part.sub_(3)
            return x + 0, half + 0, part + 0

    example = (torch.randn(4, 6),)
    # torch.export's own decomposition takes them for copies.
    _, lowered = assert_lowered_agrees(export(Pieces(), example), example, beside_torch=False)
    assert lowered.limits == ()


def test_a_write_that_has_no_inverse_stays_and_says_so() -> None:
    class Diagonal(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            y.diagonal().fill_(1.0)
            return F.hardswish(y)

    example = (torch.randn(4, 4),)
    _, lowered = assert_lowered_agrees(export(Diagonal(), example), example, beside_torch=True)
    reasons = {limit.target: limit.why for limit in lowered.limits}
    assert any(target.startswith("aten.fill_") and "no inverse" in why for target, why in reasons.items())


@pytest.mark.slow  # quick: branches and loops, in test_nested_graphs.py
def test_a_nested_graph_is_left_whole_with_a_limit() -> None:
    class Branches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cond(x.sum() > 0, lambda v: F.hardswish(v), lambda v: v - 1, (x,))

    example = (torch.randn(3, 5),)
    exported = export(Branches(), example, dynamic_shapes=({0: Dim("batch", min=2, max=13)},))
    _, lowered = assert_lowered_agrees(exported, example, beside_torch=False)
    assert [limit.target for limit in lowered.limits] == ["cond"]


def test_random_ops_are_left_whole_with_a_limit() -> None:
    class Noise(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.rand_like(x) + F.dropout(x, 0.3, training=True) + F.dropout(x, 0.3, training=False)

    _, lowered = lowered_of(export(Noise(), (torch.randn(3, 5),)))
    assert any("random" in limit.why for limit in lowered.limits)
    assert "aten.rand_like.default" in targets(lowered)


def test_a_decomposition_that_holds_at_the_example_only_is_refused() -> None:
    class Rolls(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.argsort(x[x > 0], 0)

    _, lowered = lowered_of(export(Rolls(), (torch.randn(9),)))
    refused = [limit for limit in lowered.limits if "only be right where" in limit.why]
    assert [limit.target for limit in refused] == ["aten.argsort.default"]
    assert "aten.argsort.default" in targets(lowered)
