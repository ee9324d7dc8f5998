"""Examples that make a dim a constant, lie outside the asked range, or take a path of their own."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.fixdims import small_models as models
from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.fixdims.fix import ALLOWED, Change, Fix, Outcome
from trtdiag.fixdims.run import fix_dims


def change_of(fix: Fix, name: str) -> Change:
    (change,) = [change for change in fix.changes if change.name == name]
    return change


def test_an_example_of_one_gets_another_size_and_the_dim_stays() -> None:
    example = (torch.randn(1, 3), torch.randn(1, 3))
    before = [each.clone() for each in example]
    fix = fix_dims(models.Sum(), example, dynamic_shapes=({0: Dim("b", max=64)},) * 2)
    assert all(map(torch.equal, example, before))
    assert fix.args is not None
    assert fix.args[0].shape == (2, 3)
    assert fix.outcome is Outcome.CHANGED
    assert fix.plan.sizes == {"x.shape[0]": 2, "y.shape[0]": 2}
    assert change_of(fix, "b").kind == "example"
    assert change_of(fix, "b").kept == (64, 64)
    assert fix.confirmation.exported
    assert fix.proven
    program = fix.program.module()
    for batch in (1, 2, 61, 64):
        assert program(torch.ones(batch, 3), torch.ones(batch, 3)).shape == (batch, 3)


@pytest.mark.slow  # quick: two tensors, above
def test_the_given_example_is_not_changed_where_it_is_one_tensor() -> None:
    example = torch.randn(1, 3)
    before = example.clone()
    fix = fix_dims(models.Sum(), (example, example), dynamic_shapes=({0: Dim("b", max=64)},) * 2)
    assert torch.equal(example, before)
    assert example.shape == (1, 3)
    assert fix.args is not None
    assert fix.args[0].shape == (2, 3)


@pytest.mark.slow  # quick: an example of one gets another size
def test_a_dim_that_is_compared_with_its_example_stays_dynamic_with_another_example() -> None:
    fix = fix_dims(models.ComparedWithEight(), (torch.randn(8, 3),), dynamic_shapes={"x": {0: Dim("b", min=2, max=64)}})
    change = change_of(fix, "b")
    assert change.kind == "example"
    assert any(reason.by == "a Python condition" and reason.stack.user is not None for reason in change.why)
    assert any("b = 8, static" in other.text for other in change.alternatives)
    leaf = fix.plan.leaves["x.shape[0]"]
    assert leaf.kind is LeafKind.DIM
    assert 8 not in range(fix.plan.range_of("b").min or 0, (fix.plan.range_of("b").max or 0) + 1)
    x = torch.randn(9, 3)
    assert torch.equal(fix.program.module()(x), x + 1)


@pytest.mark.slow  # quick: tests/fixdims/test_from_text_truth.py pins what has no dynamic answer
def test_a_dim_that_only_one_size_fits_becomes_static_with_the_line() -> None:
    spec = {"x": {0: Dim("b", max=64), 1: Dim("t", min=2, max=512)}}
    fix = fix_dims(models.FixedTable(), (torch.randn(2, 128, 8),), dynamic_shapes=spec)
    change = change_of(fix, "t")
    assert (change.kind, change.after, change.kept) == ("static", "128", (1, 511))
    assert change.why[0].by == "aten.add.Tensor"
    assert change.why[0].stack.user is not None
    assert fix.dynamic_shapes["x"][1] == 128
    assert isinstance(fix.dynamic_shapes["x"][0], Dim)
    assert fix.plan.sizes == {}


@pytest.mark.slow  # the quick run has one above the range, below
def test_an_example_outside_the_asked_range_is_replaced_by_a_multiple_of_it() -> None:
    spec = {"x": {2: Dim("h", min=135, max=2160), 3: Dim("w", min=135, max=3840)}}
    fix = fix_dims(models.Unshuffle(), (torch.randn(1, 3, 64, 64),), dynamic_shapes=spec)
    assert fix.plan.sizes == {"x.shape[2]": 192, "x.shape[3]": 192}
    assert fix.confirmation.exported
    assert change_of(fix, "h").kept == (254, 2026)
    assert "64 is not in the asked range 135..2160" in change_of(fix, "h").why[0].text


@pytest.mark.slow  # quick: the given example is not changed
def test_an_example_above_the_asked_range_is_divided() -> None:
    spec = {"x": {2: Dim("h", min=8, max=64)}}
    fix = fix_dims(models.Unshuffle(), (torch.randn(1, 3, 128, 64),), dynamic_shapes=spec)
    assert fix.plan.sizes == {"x.shape[2]": 64}
    assert change_of(fix, "h").after.startswith("8*_h, _h: 2..8")


@pytest.mark.slow  # the quick run has a size of one that takes a path of its own, below
def test_a_path_for_one_size_is_left_for_another_example() -> None:
    spec = {"x": {2: Dim("h", min=56, max=1120), 3: Dim("w", min=56, max=1120)}}
    model = models.PositionTable()
    fix = fix_dims(model, (torch.randn(1, 3, 224, 224),), dynamic_shapes=spec)
    assert fix.confirmation.exported
    assert fix.proven
    assert fix.plan.sizes
    kept = [change.kept for change in fix.changes if change.kept is not None]
    assert all(share[0] * 5 > share[1] for share in kept)
    assert any("with the example as it is" in a.text for change in fix.changes for a in change.alternatives)
    high, low = torch.randn(1, 3, 1120, 1120), torch.randn(1, 3, *_least(fix))
    program = fix.program.module()
    for x in (high, low):
        # The same kernels in the same order.
        torch.testing.assert_close(program(x), model(x))


def _least(fix: Fix) -> tuple[int, int]:
    height, width = (fix.plan.leaves[f"x.shape[{index}]"] for index in (2, 3))
    assert (height.scale, width.scale) == (1, 1)
    return fix.plan.range_of(height.root).min or 0, fix.plan.range_of(width.root).min or 0


@pytest.mark.slow  # quick: an example of one gets another size, too
@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.slow)])
def test_an_example_that_is_0_or_1_of_the_new_dim_gets_another_size(size: int) -> None:
    # Of 1 the dim is a constant first, and of the size that is tried instead the new Dim is 0 again.
    spec = {"x": {0: Dim("b", min=1, max=40)}}
    model = models.TwoMoreThanFours()
    fix = fix_dims(model, (torch.rand(size, 3),), dynamic_shapes=spec)
    change = change_of(fix, "b")
    assert (change.kind, change.kept) == ("example", (10, 40))
    assert (change.after.split(",")[0], fix.plan.sizes) == ("4*_b + 2", {"x.shape[0]": 10})
    assert fix.proven
    program = fix.program.module()
    for batch in (2, 6, 10, 38):
        x = torch.rand(batch, 3)
        assert torch.equal(program(x), model(x))


@pytest.mark.slow  # 4 s; the quick run has an example of one, and one of another path, that give way
def test_a_dim_that_the_example_alone_pins_is_tried_at_other_sizes() -> None:
    spec = {"x": {0: Dim("b", min=1, max=16), 1: Dim("t", min=1, max=24)}}
    fix = fix_dims(models.RowsOfEight(), (torch.rand(4, 8),), dynamic_shapes=spec)
    assert (change_of(fix, "t").kind, change_of(fix, "t").kept) == ("example", (2, 24))
    assert fix.plan.sizes == {"x.shape[1]": 16}
    assert fix.proven
    program = fix.program.module()
    for batch, columns in ((1, 16), (7, 24), (16, 16)):
        x = torch.rand(batch, columns)
        assert torch.equal(program(x), x)


@pytest.mark.slow  # quick: an example of one gets another size
def test_a_size_of_one_that_takes_a_path_of_its_own_is_left_out() -> None:
    # torch traces as if no size were 1: no guard says that the model goes another way there.
    model = models.OneRowApart()
    fix = fix_dims(model, (torch.rand(4, 3),), dynamic_shapes={"x": {0: Dim("b", min=1, max=16)}})
    (change,) = fix.changes
    assert (change.after, change.kept) == ("b: 2..16", (15, 16))
    assert (change.why[0].text, change.why[0].by) == ("b >= 2", "a run beside the model")
    assert fix.proven
    for rows in (2, 7, 16):
        x = torch.rand(rows, 3)
        assert torch.equal(fix.program.module()(x), model(x))


@pytest.mark.slow  # quick: where nothing mends it, nothing is proven, in test_on_data.py
def test_a_model_that_fails_at_every_size_is_said_not_to_be_about_dims() -> None:
    fix = fix_dims(models.WrongProduct(), (torch.randn(2, 4),), dynamic_shapes={"x": {0: Dim("b", min=2, max=64)}})
    assert fix.outcome is Outcome.IMPOSSIBLE
    assert "reduction dim" in fix.failure
    assert any("every dim static" in note for note in fix.notes)


@pytest.mark.slow  # quick: the checks by themselves in tests/frontend/test_data_checks_limits.py
def test_sizes_that_data_decides_give_the_checks_to_write() -> None:
    x = torch.tensor([1.0, -1.0, 2.0, 3.0, -2.0, 5.0, 7.0])
    fix = fix_dims(models.CountedBranch(), (x,), dynamic_shapes={"x": {0: Dim("n", min=2, max=100)}})
    assert fix.outcome is Outcome.IMPOSSIBLE
    assert [check.confirmed for check in fix.checks] == [True]
    (check,) = fix.checks
    assert check.code.startswith("torch._check(positive.shape[0] > 3)")
    assert check.where.user is not None
    assert check.where.user.file.endswith("small_models.py")


# Quick: the largest size.
@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow), 61])
def test_nothing_changes_where_everything_holds(size: int) -> None:
    spec = {"x": {0: Dim("b", min=2, max=64)}}
    fix = fix_dims(nn.ReLU(), (torch.randn(size, 3),), dynamic_shapes=({0: spec["x"][0]},))
    assert fix.outcome is Outcome.UNCHANGED
    assert fix.changes == ()
    assert fix.confirmation.exported
    assert fix.dynamic_shapes == ({0: spec["x"][0]},)
    assert fix.plan.sizes == {}


@pytest.mark.slow  # quick: sizes that data decides give the checks to write
def test_what_the_guards_allow_and_no_dim_says_is_told_with_its_share() -> None:
    fix = fix_dims(models.EvenRows(), (torch.randn(2, 136),), dynamic_shapes={"x": {1: Dim("t", min=135, max=2160)}})
    change = change_of(fix, "t")
    assert change.after == "8*_t, _t: 17..270"
    assert change.kept == (254, 2026)
    # By hand: t % 8 in {0, 5, 6, 7} from 135 to 2160.
    count = sum(1 for t in range(135, 2161) if t % 8 in (0, 5, 6, 7))
    assert [(a.text, a.kept) for a in change.alternatives if a.note == ALLOWED] == [
        ("t % 8 in {0, 5..7}", (count, 2026))
    ]
    assert change.why[0].by == "a Python condition"
    assert change.why[0].counterexample == "t = 137"


def test_a_dim_that_torch_refuses_beside_an_unread_guard_is_not_talked_around() -> None:
    fix = fix_dims(models.PowerOfTwo(), (torch.randn(8, 2),), dynamic_shapes={"x": {0: Dim("n", min=2, max=64)}})
    assert fix.plan.leaves["x.shape[0]"].kind is LeafKind.STATIC
    assert any("could not be read" in reason.text for reason in change_of(fix, "n").why)
    assert fix.program.module()(torch.ones(8, 2)).shape == (8, 2)


class EqualOrSix(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x if x.shape[0] == y.shape[0] or x.shape[0] == 6 else x * 3


def test_a_number_has_an_example_of_its_size() -> None:
    leaves = {"x.shape[0]": Leaf(LeafKind.STATIC, value=7), "x.shape[1]": Leaf(LeafKind.STATIC, value=3)}
    plan = Plan((), {**leaves, "x.shape[2]": Leaf(LeafKind.DYNAMIC)})
    examples = {"x.shape[0]": 6, "x.shape[1]": 3, "x.shape[2]": 5}
    assert plan.with_examples_of_static(examples).sizes == {"x.shape[0]": 7}
    assert plan.with_examples_of_static({**examples, "x.shape[0]": 7}) is plan


@pytest.mark.slow  # four exports; quick: the sizes of the plan alone
def test_a_number_that_another_example_led_to_is_exported_with_that_example() -> None:
    """torch refuses a number that is not its example's size; it was called impossible."""
    args, dims = (torch.randn(6, 3), torch.randn(5, 3)), ({0: Dim("n", min=1, max=7)}, {0: Dim("m", min=1, max=7)})
    fix = fix_dims(EqualOrSix(), args, dynamic_shapes=dims, programs=1)
    assert fix.proven
    size = fix.plan.leaves["x.shape[0]"].value
    assert size is not None
    assert fix.plan.sizes.get("x.shape[0]", 6) == size
    assert fix.args is not None
    assert fix.args[0].shape[0] == size


class Positions(nn.Module):
    """Learned places as they are for the square that they were learned for, else others of its size."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, w = x.shape
        if h // 4 * (w // 4) == 9 and h == w:
            return x.sum() + self.places
        return x.sum() + self.places.mean() * torch.ones(h // 4, w // 4)


def test_an_example_on_the_way_of_one_square_gives_way_to_another() -> None:
    dims = ({0: Dim("h", min=8, max=32), 1: Dim("w", min=8, max=32)},)
    model = Positions()
    fix = fix_dims(model, (torch.ones(12, 12),), dynamic_shapes=dims, programs=1)
    assert fix.proven
    assert fix.plan.sizes == {"x.shape[0]": 24}
    assert [(change.name, change.kept) for change in fix.changes] == [("h", (17, 25))]
    program = fix.program.module()
    for sizes in ((16, 8), (23, 32), (32, 9), (16, 16)):
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.slow  # quick: two Dims that a model compares become one, in test_fix_dims_relations.py
def test_an_example_that_must_be_square_stays() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mT + x if x.shape[0] == x.shape[1] else x

    dims = ({0: Dim("h", min=8, max=32), 1: Dim("w", min=8, max=32)},)
    fix = fix_dims(Square(), (torch.ones(12, 12),), dynamic_shapes=dims, programs=1)
    assert fix.proven
    assert (fix.plan.sizes, fix.confirmation.rounds) == ({}, 2)
