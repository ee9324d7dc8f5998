"""What is read off the source of a line: that it only refuses, of a file and nothing else; a loop; padding."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.nn import functional

import trtdiag
from tests.fixdims.test_advice import ASKED, because, dim, only, plan
from tests.harness.rows import each
from tests.whole_file_kinds import NOT_FILES
from trtdiag.dims.facts import GuardOrigin
from trtdiag.dims.plan import DimDef
from trtdiag.fixdims.branch_advice import only_refuses
from trtdiag.fixdims.fix import Outcome
from trtdiag.fixdims.plain_numbers import taken_of_any_example
from trtdiag.graph.source import Frame, Stack
from trtdiag.symbolic import Range, compare, floordiv
from trtdiag.symbolic.expr import Relation, Sym

SOURCE = """def forward(x):
    if x.shape[0] > 3:
        raise ValueError("too many")
    assert x.shape[1] > 1
    if x.shape[2] > 3:
        x = x * 2
    return x
"""


@pytest.mark.parametrize(("line", "refuses"), [(1, False), (2, True), (4, True), (5, False), (99, False)])
def test_conditions_that_raise(line: int, refuses: bool, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SOURCE)
    assert only_refuses(Frame(str(tmp_path / "model.py"), line)) is refuses


@pytest.mark.parametrize("kind", NOT_FILES)
def test_a_place_that_is_no_file_is_not_read(kind: str, tmp_path: Path) -> None:
    """A saved program says what it likes of where its lines are: a named pipe would be waited for without end."""
    place = tmp_path / "model.py"
    NOT_FILES[kind](place)
    assert not only_refuses(Frame(str(place), 2))


@pytest.mark.parametrize("name", ["absent.py", "<ipython-input-1>", "nul\0.py", "n" * 5000, ""])
def test_names_that_lead_nowhere(name: str) -> None:
    assert not only_refuses(Frame(name, 1))


class GoneThrough(nn.Module):
    """Each row by itself: in a comprehension, and in a loop."""

    def __init__(self, listed: bool) -> None:
        super().__init__()
        self.listed = listed

    def forward(self, x: Tensor) -> Tensor:
        if self.listed:
            rows = [
                row.softmax(0)
                for row in x  # the export names the line on which the list begins
            ]
            return torch.stack(rows)
        total = x.new_zeros(4)
        for row in x:
            total = total + row
        return total


@each("listed", [True, False])
def test_a_loop_over_a_tensor_is_no_recurrent_layer(listed: bool) -> None:
    dims = {"x": {0: Dim("n", min=2, max=8)}}
    fix = trtdiag.fix_dims(GoneThrough(listed), (torch.rand(3, 4),), dynamic_shapes=dims)
    (change,) = fix.changes
    assert fix.confirmation.rounds <= 3  # as asked, with one other example, and with the answer
    assert change.model_change is not None
    assert change.model_change.text.startswith("write the Python loop over n at ")


def test_a_power_of_two_has_a_condition_that_is_read() -> None:
    class Powers(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if x.shape[0] & (x.shape[0] - 1) == 0 else x

    class Listed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if x.shape[0] in [1 << k for k in range(31)] else x

    before, after = (
        trtdiag.fix_dims(model(), (torch.ones(24),), dynamic_shapes=({0: Dim("n", min=17, max=31)},))
        for model in (Powers, Listed)
    )
    assert before.changes[0].why[0].text.endswith("could not be read: Ne(BitwiseFn_bitwise_and(n, n - 1), 0)")
    assert before.changes[0].model_change is not None
    assert before.changes[0].model_change.text.startswith("write n in [1 << k for k in range(31)] in place of n & (n -")
    assert (after.proven, after.changes) == (True, ())


class Last(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, -16:] * 2


class LastBetween(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, -16:-3] * 2


class LastByIndex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        return x.index_select(1, torch.arange(max(n - 16, 0), n)) * 2


@each("size", [9, 24])
def test_the_last_of_a_tensor_are_no_table_and_have_another_way(size: int) -> None:
    fixes = [
        trtdiag.fix_dims(model, (torch.ones(3, size),), dynamic_shapes=({1: Dim("n", min=2, max=40)},))
        for model in (Last(), LastBetween(), LastByIndex())
    ]
    (last,), (between,) = fixes[0].changes, fixes[1].changes
    assert last.model_change is not None
    assert last.model_change.text.startswith("write x.index_select(dim, torch.arange(max(n - 16, 0), n)) in place of")
    assert between.model_change is None
    assert fixes[2].proven
    program = fixes[2].program.module()
    for n in (2, 15, 16, 17, 40):
        x = torch.randn(3, n)
        assert torch.equal(program(x), Last()(x))


def test_sizes_at_which_torchs_own_algebra_contradicts_itself_are_the_examples() -> None:
    """Of ``int(-n / 7)`` torch records ``(-n) // 7 == -3``, and finds that inconsistent for n = 24 (2.13)."""

    class Negative(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x * int(-x.shape[0] / 7) + y.sum()

    n, m = Dim("n", min=2, max=40), Dim("m", min=2, max=40)
    fix = trtdiag.fix_dims(Negative(), (torch.ones(24), torch.ones(5)), dynamic_shapes=({0: n}, {0: m}))
    assert (fix.outcome.value, fix.proven) == ("changed", True)
    assert fix.plan.leaves["x.shape[0]"].value in (None, 24)  # a torch that takes it keeps 21 to 27
    y = torch.randn(9)
    assert torch.equal(fix.program.module()(torch.ones(24), y), Negative()(torch.ones(24), y))


class PaddedIfNeeded(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] % 4 != 0:
            x = functional.pad(x, (0, 4 - x.shape[0] % 4))
        return x * 2


class PaddedAlways(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x, (0, -x.shape[0] % 4)) * 2


def test_padding_that_is_asked_for_by_an_if_is_advised_without_it() -> None:
    dims = ({0: Dim("n", min=2, max=40)},)
    asked = trtdiag.fix_dims(PaddedIfNeeded(), (torch.ones(13),), dynamic_shapes=dims)
    assert asked.changes[0].model_change is not None
    assert asked.changes[0].model_change.text.startswith(f"pad without the if at {__file__}:")
    assert "by -n % 4, which is 0" in asked.changes[0].model_change.text
    always = trtdiag.fix_dims(PaddedAlways(), (torch.ones(13),), dynamic_shapes=dims)
    assert always.proven
    assert not any(change.lost for change in always.changes)
    for size in (2, 16, 37, 40):
        x = torch.randn(size)
        assert torch.equal(always.program.module()(x), PaddedIfNeeded()(x))


class OfBoth(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] % 4 or x.shape[1] > 20 else x


def test_other_ways_are_told_by_the_shortest_condition_each_once() -> None:
    dims = ({0: Dim("n", min=2, max=40), 1: Dim("m", min=2, max=40)},)
    fix = trtdiag.fix_dims(OfBoth(), (torch.ones(16, 13),), dynamic_shapes=dims)
    assert fix.several is not None
    assert sorted(note.partition(" go ")[0] for note in fix.several.notes) == [
        "sizes with m >= 21",
        "sizes with n % 4 != 0",
    ]


class Spaced(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        high, wide = x.shape[0] // 2, x.shape[1] // 2
        return torch.linspace(0, 1, high)[:, None] * torch.linspace(0, 1, wide) * x[:high, :wide]


def test_no_other_example_is_tried_where_a_call_takes_the_number_of_any() -> None:
    """Six further exports of Mochi's transformer, whose positions are linspaces over halves of its sides."""
    dims = {"x": {0: Dim("h", max=64), 1: Dim("w", max=64)}}
    fix = trtdiag.fix_dims(Spaced(), (torch.rand(8, 12),), dynamic_shapes=dims)
    assert fix.confirmation.rounds == 2
    assert all(change.model_change and "linspace takes" in change.model_change.text for change in fix.changes)


@each("value", [1, 6])
def test_an_inner_size_of_1_is_not_what_a_call_takes(value: int) -> None:
    """torch itself asks for 1, and another example keeps more; a window of 2 in the line takes no size at all."""
    condition = compare(Relation.EQ, floordiv(Sym("n"), 2), value)
    for window, takes in (("rows", value == 6), ("2", False)):
        stack = Stack((Frame("net.py", 7, "forward", f"x = F.max_pool2d(x, {window})"),))
        origin = GuardOrigin(("ShapeEnv",), stack, branch=False)  # the number is made before an op runs: none is named
        assert taken_of_any_example(condition, origin) is takes


@each("listed", [True, False])
def test_a_size_of_1_in_the_example_is_not_called_the_only_cause(listed: bool) -> None:
    """It stays one size with any other example, too: what takes it was not said."""
    fix = trtdiag.fix_dims(GoneThrough(listed), (torch.rand(1, 4),), dynamic_shapes={"x": {0: Dim("n", max=8)}})
    (change,) = fix.changes
    assert fix.confirmation.rounds == 3  # as asked, with one other example, and with the answer
    assert [reason.text for reason in change.why][1] == "n == 2: with another example"
    assert change.model_change is not None
    assert change.model_change.text.startswith("write the Python loop over n at ")


class Subsampled(nn.Module):
    """As encoders of speech begin; with a copy of what the last layer takes, as it is advised."""

    def __init__(self, copied: bool) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv1d(4, 4, 5, 2), nn.Conv1d(4, 4, 5, 2), nn.Linear(4, 4)
        self.copied = copied

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.first(x)).transpose(1, 2)
        return self.last(y.clone(memory_format=torch.contiguous_format) if self.copied else y)


@each(
    "row",
    [
        ("aten.linear.default", True),
        ("aten._unsafe_view.default", True),
        ("aten.add.Tensor", False),
        ("a Python condition", False),
    ],
)
def test_an_order_in_memory_that_is_kept_asks_for_a_copy(row: tuple[str, bool]) -> None:
    by, said = row
    one = only(ASKED, plan(DimDef("h", Range(140, 2160)), x_2=dim("h")), because("b*h != h", "y = self.last(y)", by))
    assert (one is not None and "x.clone(memory_format=torch.contiguous_format)" in one.text) is said


@pytest.mark.slow  # four exports; quick: for which reasons it is said
def test_batches_of_one_that_the_order_in_memory_refuses_need_a_copy() -> None:
    x, dims = torch.randn(2, 4, 64), ({0: Dim("b", min=1, max=8), 2: Dim("n", min=17, max=160)},)
    before, after = (trtdiag.fix_dims(Subsampled(copied), (x,), dynamic_shapes=dims) for copied in (False, True))
    (change,) = before.changes
    assert (change.name, change.lost) == ("b", "b == 1: 1 values")
    assert change.model_change is not None
    assert change.model_change.text.startswith("write x.clone(memory_format=torch.contiguous_format) in place of x at")
    assert (after.outcome, after.proven) == (Outcome.UNCHANGED, True)


class Indexed(nn.Module):
    """What is advised for ``x[:, : n // 8 * 8]``."""

    def forward(self, x: Tensor) -> Tensor:
        return x.index_select(1, torch.arange(x.shape[1] // 8 * 8)) * 2


def test_the_index_takes_every_size() -> None:
    program = export(Indexed(), (torch.rand(3, 16),), dynamic_shapes=({1: Dim("n", min=8, max=61)},)).module()
    for size in (8, 15, 16, 17, 61):
        x = torch.rand(3, size)
        assert torch.equal(program(x), x[:, : size // 8 * 8] * 2)
