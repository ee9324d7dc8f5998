"""What tensors become inside engines: int64 and float64 in inputs, constants and results, for old and new targets."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.lower.agreement import lowered_of
from trtdiag.dtypes.facts import Role
from trtdiag.dtypes.plan import plan_types
from trtdiag.targets.versions import get_target

OLD, NEW = get_target("8.6"), get_target("11.4")


def planned(module, args, dims=None, target=OLD, truncate=False):
    program, lowered = lowered_of((module.eval(), args, {}, dims))
    plan = plan_types(lowered, program.ranges, target, truncate_double=truncate, names=program.names)
    assert set(plan.engine) == {node.name for node in lowered.graph_module.graph.nodes}
    return plan, lowered


def node(lowered, op):
    found = [n.name for n in lowered.graph_module.graph.nodes if n.op == "call_function" and op in str(n.target)]
    assert len(found) == 1, found
    return found[0]


def entry(plan, name):
    return next(each for each in plan.entries if each.node == name)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 8)
        self.places = nn.Embedding(66, 8)
        self.register_buffer("shift", torch.tensor([2]))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1]) + self.shift
        return (self.words(ids) + self.places(places)) * mask.unsqueeze(-1)


LANGUAGE = (torch.ones(2, 9, dtype=torch.int64), torch.ones(2, 9, dtype=torch.int64))
SEQ = {"ids": {1: Dim("seq", min=1, max=64)}, "mask": {1: Dim("seq", min=1, max=64)}}


def test_int64_is_narrowed_where_values_are_proven_to_fit():
    plan, lowered = planned(Language(), LANGUAGE, SEQ)
    assert plan.engine["ids"] == (torch.int32,)
    ids = entry(plan, "ids")
    assert (ids.role, ids.program_dtype, ids.engine_dtype) == (Role.INPUT, torch.int64, torch.int32)
    assert "index into words.weight of size 100" in ids.why
    assert plan.engine[node(lowered, "arange")] == (torch.int32,)
    assert entry(plan, node(lowered, "arange")).why == "arange(0, seq) with seq <= 64"
    shift = next(each for each in plan.entries if each.role is Role.CONSTANT)
    assert (shift.node, shift.engine_dtype, shift.why) == ("b_shift", torch.int32, "values read: 2..2")


def test_an_input_of_unknown_values_limits_its_ops_and_is_named():
    plan, lowered = planned(Language(), LANGUAGE, SEQ)
    limited = {node(lowered, "unsqueeze"), node(lowered, "mul")}
    assert set(plan.limits) == limited
    limit = plan.limits[node(lowered, "unsqueeze")]
    assert limit.code == "int64-range"
    assert limit.why == (
        "its input mask is int64, and int32 does not hold its values unbounded as far as known: user input, any int64"
    )
    assert limit.fix.startswith("pass mask as torch.int32 and export again")
    assert entry(plan, "mask").engine_dtype is None
    assert plan.engine["mask"] == (torch.int64,)


def test_a_target_with_int64_casts_nothing():
    plan, _ = planned(Language(), LANGUAGE, SEQ, NEW)
    assert plan.limits == {}
    assert plan.entries == ()
    assert plan.engine["ids"] == plan.engine["mask"] == (torch.int64,)


def test_int32_declared_by_the_user_is_what_the_limit_asks_for():
    args = (LANGUAGE[0], torch.ones(2, 9, dtype=torch.int32))
    assert planned(Language(), args, SEQ)[0].limits == {}


def test_values_are_not_followed_for_a_target_with_int64(monkeypatch):
    def never(*_):
        raise AssertionError("spans were computed")

    monkeypatch.setattr("trtdiag.dtypes.plan_integers.graph_spans", never)
    assert planned(Language(), LANGUAGE, SEQ, NEW)[0].limits == {}


class Table(nn.Module):
    def __init__(self, *values):
        super().__init__()
        self.register_buffer("table", torch.tensor(values))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


@pytest.mark.parametrize(
    ("values", "fits"), [((2**31 - 1, -(2**31)), True), ((2**31, 0), False), ((-(2**31) - 1, 0), False)]
)
def test_a_constant_is_narrowed_when_its_values_fit(values, fits):
    plan, lowered = planned(Table(*values), (torch.ones(2, dtype=torch.int32).float(),))
    assert (plan.engine["b_table"] == (torch.int32,)) is fits
    assert (node(lowered, "add") in plan.limits) is not fits
    if not fits:
        limit = plan.limits[node(lowered, "add")]
        assert limit.why.startswith("its constant b_table is int64, and int32 does not hold its values")
        assert "as far as known" not in limit.why


@pytest.mark.parametrize(("most", "fits"), [(2**15, True), (2**16, False)])
def test_arithmetic_on_sizes_at_the_edge_of_int32(most, fits):
    class Square(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            place = torch.arange(x.shape[0])
            return x * (place * place + place)  # at most n*n - n

    plan, lowered = planned(Square(), (torch.randn(7),), {"x": {0: Dim("n", min=1, max=most)}})
    sums = node(lowered, "add")
    assert (sums in plan.limits) is not fits
    if not fits:
        assert plan.limits[sums].code == "int64-range"


def test_a_number_beyond_int32_beside_narrowed_integers():
    class Far(nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def forward(self, x: Tensor) -> Tensor:
            return x * (torch.arange(x.shape[0]) < self.number)

    dims = {"x": {0: Dim("n", min=1, max=64)}}
    plan, lowered = planned(Far(2**40), (torch.randn(7),), dims)
    assert plan.limits[node(lowered, "lt")].code == "int64-range"
    assert str(2**40) in plan.limits[node(lowered, "lt")].why
    assert planned(Far(2**31 - 1), (torch.randn(7),), dims)[0].limits == {}
    assert planned(Far(2**40), (torch.randn(7),), dims, NEW)[0].limits == {}


def test_the_end_of_an_open_slice_is_no_value():
    class Tail(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.arange(x.shape[0] + 1)[1 : 2**63 - 1]

    assert planned(Tail(), (torch.randn(7),), {"x": {0: Dim("n", min=2, max=64)}})[0].limits == {}


class Doubles(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([0.5, 2.0], dtype=torch.float64))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x * self.scale).float() + y, y.sin()


def test_float64_needs_truncate_double():
    args = (torch.randn(3, 2, dtype=torch.float64), torch.randn(3, 2))
    for target in (OLD, NEW):
        plan, lowered = planned(Doubles(), args, None, target)
        assert set(plan.limits) == {node(lowered, "mul"), node(lowered, "_to_copy")}
        limit = plan.limits[node(lowered, "mul")]
        assert limit.code == "double-precision"
        assert limit.why == "its input x is float64, and truncate_double is off"
        assert "truncate_double=True" in limit.fix
        plan, lowered = planned(Doubles(), args, None, target, truncate=True)
        assert plan.limits == {}
        for name in ("x", "b_scale", node(lowered, "mul")):
            assert plan.engine[name] == (torch.float32,)
        assert [each.role for each in plan.entries] == [Role.CONSTANT, Role.INPUT, Role.INNER]


def test_a_double_constant_beyond_float32_is_not_truncated():
    class Huge(nn.Module):
        def __init__(self, value):
            super().__init__()
            self.register_buffer("huge", torch.tensor([1.0, value], dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return x.minimum(self.huge) + 1

    args = (torch.randn(2, dtype=torch.float64),)
    plan, lowered = planned(Huge(1e39), args, None, NEW, truncate=True)
    assert plan.limits[node(lowered, "minimum")].why.endswith("and float32 cannot hold its values")
    assert planned(Huge(float("inf")), args, None, NEW, truncate=True)[0].limits == {}
    assert planned(Huge(3.4e38), args, None, NEW, truncate=True)[0].limits == {}


def test_a_double_number_argument_beyond_float32():
    class Add(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.clamp(x, max=1e300)

    plan, lowered = planned(Add(), (torch.randn(2, dtype=torch.float64),), None, NEW, truncate=True)
    assert "max=1e+300" in plan.limits[node(lowered, "clamp")].why


class WrappedNumber(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("part", torch.tensor(0.5, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > self.part, x * self.part, self.part)


def test_a_double_number_that_promotion_does_not_see_is_no_double_work():
    for target in (OLD, NEW):
        plan, _ = planned(WrappedNumber(), (torch.randn(5),), None, target)
        assert plan.limits == {}
        assert plan.engine["b_part"] == (torch.float32,)
    # Beside integers it decides: the product is float64.
    plan, lowered = planned(WrappedNumber(), (torch.arange(5, dtype=torch.int32),), None, NEW)
    assert plan.limits[node(lowered, "mul")].code == "double-precision"


class Image(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x.float() / 255).mul(200).to(torch.uint8)


def test_uint8_stays_next_to_its_casts():
    plan, lowered = planned(Image(), (torch.zeros(2, 3, dtype=torch.uint8),), None, NEW)
    assert plan.limits == {}
    assert plan.engine["x"] == (torch.uint8,)
    casts = [n for n in lowered.graph_module.graph.nodes if "_to_copy" in str(n.target)]
    assert [plan.engine[n.name] for n in casts] == [(torch.float32,), (torch.uint8,)]


def test_uint8_that_moves_first_enters_as_int32():
    class Moved(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.permute(1, 0).float()

    plan, _ = planned(Moved(), (torch.zeros(2, 3, dtype=torch.uint8),), None, NEW)
    assert plan.limits == {}
    assert plan.engine["x"] == plan.engine["permute"] == (torch.int32,)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_narrow_integers_become_int32_unless_they_may_wrap(dtype):
    class Narrow(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            small = x.clamp(0, 100)
            return small + 27, x * 2, x.bitwise_and(7), x > 5

    for target in (OLD, NEW):
        plan, lowered = planned(Narrow(), (torch.ones(5, dtype=dtype),), None, target)
        assert set(plan.limits) == {node(lowered, "mul")}
        limit = plan.limits[node(lowered, "mul")]
        assert limit.code == "integer-width"
        assert "may wrap around" in limit.why
        assert plan.engine["x"] == plan.engine[node(lowered, "add")] == (torch.int32,)
        assert plan.engine[node(lowered, "gt")] == (torch.bool,)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_narrow_integers_of_ops_with_several_outputs(dtype):
    class Several(nn.Module):
        def forward(self, x: Tensor) -> list[Tensor]:
            return [*x.sort(), *x.max(0), *x.split(2)]

    plan, lowered = planned(Several(), (torch.ones(5, dtype=dtype),), None, NEW)
    assert plan.limits == {}
    assert plan.engine[node(lowered, "sort")] == plan.engine[node(lowered, "max")] == (torch.int32, torch.int64)
    assert plan.engine[node(lowered, "split")] == (torch.int32,) * 3


def test_numbers_that_narrow_integers_do_not_hold_are_cut_off_before_the_op():
    """As PyTorch has it, 255 of uint8 is not below 1000, which is 232 there."""

    class Beside(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            wrong = (x < 1000, x.clamp(-2, 200), x.eq(torch.tensor(-1)), x < 20 * x.shape[0], x & 256, x.fmod(-3))
            right = (x < 255, x.clamp(0, 200), x.eq(torch.tensor(255)), x > 1000.0, x.int() < 1000, x < 10 * x.shape[0])
            return *wrong, *right

    plan, lowered = planned(Beside(), (torch.ones(5, dtype=torch.uint8),), ({0: Dim("n", min=2, max=20)},), NEW)
    wrong = [name for name in (node.name for node in lowered.graph_module.graph.nodes) if name in plan.limits]
    assert wrong == ["lt", "clamp", "eq", "lt_1", "and_1", "fmod"]
    assert {limit.code for limit in plan.limits.values()} == {"integer-width"}
    assert "its argument other is 1000, which uint8 does not hold" in plan.limits["lt"].why
    assert "its argument other is 40..400, which uint8 does not hold" in plan.limits["lt_1"].why


def test_numbers_that_narrow_integers_do_not_hold_are_cut_off_before_they_are_looked_up():
    """-1 is 255 of uint8, and stands behind all of it."""

    class Places(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            wrong = (torch.searchsorted(x, -1), torch.bucketize(256, x), torch.searchsorted(x, -1, sorter=x.argsort()))
            right = (torch.searchsorted(x, 255), torch.bucketize(2.5, x), torch.searchsorted(x.int(), -1))
            return *wrong, *right

    plan, lowered = planned(Places(), (torch.arange(5, dtype=torch.uint8),), None, NEW)
    wrong = [name for name in (node.name for node in lowered.graph_module.graph.nodes) if name in plan.limits]
    assert wrong == ["searchsorted", "bucketize", "searchsorted_1"]
    assert {limit.code for limit in plan.limits.values()} == {"integer-width"}
    assert "its argument self is -1, which uint8 does not hold" in plan.limits["searchsorted"].why


def test_a_cast_of_unknown_floats_to_int16_may_wrap():
    class Cut(nn.Module):
        def __init__(self, bound):
            super().__init__()
            self.bound = bound

        def forward(self, x: Tensor) -> Tensor:
            x = x.tanh() * 100 if self.bound else x
            return x.to(torch.int16) + 1

    plan, lowered = planned(Cut(False), (torch.randn(5),), None, NEW)
    assert plan.limits[node(lowered, "_to_copy")].code == "integer-width"
    assert planned(Cut(True), (torch.randn(5),), None, NEW)[0].limits == {}


def test_dtypes_without_counterpart():
    class Plain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + x

    plan, lowered = planned(Plain(), (torch.ones(5, dtype=torch.bfloat16),), None, OLD)
    limit = plan.limits[node(lowered, "add")]
    assert limit.code == "no-counterpart"
    assert limit.why.endswith(f"and TensorRT {OLD.version} has no bfloat16")
    assert limit.fix
    assert planned(Plain(), (torch.ones(5, dtype=torch.bfloat16),), None, NEW)[0].limits == {}
    assert planned(Plain(), (torch.ones(5, dtype=torch.float16),), None, OLD)[0].limits == {}


def test_complex_ops_say_why_lowering_left_them_and_views_that_they_are_none():
    class Plain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + x

    class Products(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x * 2).cumprod(0)

    example = (torch.ones(5, dtype=torch.complex64),)
    for target in (OLD, NEW):
        limits = planned(Plain(), example, None, target)[0].limits.values()
        assert {limit.code for limit in limits} == {"complex-view"}
        plan, lowered = planned(Products(), example, None, target)
        limit = plan.limits[node(lowered, "cumprod")]
        assert limit.code == "no-counterpart"
        assert limit.why == "it takes or gives complex numbers, and is not among the ops written with real ones"
        assert limit.fix


@pytest.mark.slow  # quick: test_int64_is_narrowed_where_values_are_proven_to_fit
def test_an_output_that_nobody_picks_limits_nothing():
    class Best(nn.Module):
        def __init__(self, positions):
            super().__init__()
            self.positions = positions

        def forward(self, x: Tensor) -> Tensor:
            values, positions = torch.sort(x, 0)
            return positions * 3 if self.positions else values

    dims = {"x": {0: Dim.AUTO}}
    plan, lowered = planned(Best(False), (torch.randn(5, 2),), dims)
    assert plan.limits == {}
    assert len(plan.engine[node(lowered, "sort")]) == 2
    plan, lowered = planned(Best(True), (torch.randn(5, 2),), dims)  # an unbounded number of positions
    assert set(plan.limits) == {node(lowered, "sort"), node(lowered, "mul")}
    plan, lowered = planned(Best(True), (torch.randn(5, 2),), {"x": {0: Dim("n", min=1, max=9)}})
    assert plan.limits == {}
    assert plan.engine[node(lowered, "sort")] == (torch.float32, torch.int32)


def test_a_buffer_that_the_program_changes_is_an_input():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.tensor([0]))

        def forward(self, x: Tensor) -> Tensor:
            self.steps.add_(1)
            return x * self.steps

    plan, _ = planned(Counter(), (torch.randn(3),))
    assert entry(plan, "b_steps").role is Role.INPUT
    assert {limit.code for limit in plan.limits.values()} == {"int64-range"}
