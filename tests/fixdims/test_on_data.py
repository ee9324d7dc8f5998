"""What is called proven runs on tensors, at sizes that differ wherever the answer leaves them free."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from trtdiag.dims.plan import LeafKind
from trtdiag.fixdims.fix import Fix, Outcome
from trtdiag.fixdims.run import fix_dims
from trtdiag.report.fix_words import fix_verdict


class Decoder(torch.nn.Module):
    """One layer of attention over a cache whose keys and values come as two inputs."""

    def __init__(self, heads: int = 2, size: int = 8) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.project = torch.nn.Linear(heads * size, 3 * heads * size)

    def forward(self, x: torch.Tensor, past_k: torch.Tensor, past_v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        batch, tokens, _ = x.shape
        new = self.project(x).view(batch, tokens, 3 * self.heads, self.size).transpose(1, 2)
        q, k, v = new.chunk(3, 1)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        return functional.scaled_dot_product_attention(q, k, v), k, v


class Masked(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Positions(torch.nn.Module):
    """Token and position embedding: nothing guards the length against the table's."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(100, 8), torch.nn.Embedding(rows, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.tokens(ids) + self.places(torch.arange(ids.shape[1]))


class ImageTokens(torch.nn.Module):
    """Features of an image in the place of its tokens: how many there are, the prompt says."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(50, 8)

    def forward(self, ids: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        embedded = self.tokens(ids)
        embedded[ids == 49] = features
        return embedded


@torch.library.custom_op("trtdiag_tests::picky", mutates_args=())
def picky(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] % 4 == 3:
        raise ValueError(f"{x.shape[0]} does not suit")
    return x + 1


@picky.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("trtdiag_tests::zipped", mutates_args=())
def zipped(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    if x.shape != z.shape:
        raise ValueError(f"{x.shape[0]} and {z.shape[0]}")
    return x + z


@zipped.register_fake
def _(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Zipped(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return zipped(x, y, z)


class Picky(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return picky(x)


def _pairs(fix: Fix, one: str, other: str) -> set[tuple[int, int]]:
    """The sizes of two dims at which the program ran on tensors."""
    sizes = [dict(part.split(" = ") for part in sizes.split(", ")) for sizes in fix.confirmation.ran_on_data]
    return {(int(each[one]), int(each[other])) for each in sizes}


@pytest.mark.slow  # quick: a program that answers otherwise than its model fails, in test_real_runs_judge.py
def test_keys_and_values_of_a_cache_get_one_dim() -> None:
    """With 7 keys and 9 values the program fails; fake tensors do not see it, and torch guards nothing."""
    args = (torch.randn(1, 1, 16), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8))
    dims = {"x": None, "past_k": {2: Dim("past_k", max=64)}, "past_v": {2: Dim("past_v", max=64)}}
    fix = fix_dims(Decoder().eval(), args, dynamic_shapes=dims)
    assert fix.proven
    assert fix.plan.leaves["past_k.shape[2]"].root == fix.plan.leaves["past_v.shape[2]"].root != ""
    assert fix.confirmation.exported
    assert all(k == v for k, v in _pairs(fix, "past_k.shape[2]", "past_v.shape[2]"))
    equations = {reason.text for change in fix.changes for reason in change.why}
    assert equations & {"past_k == past_v", "past_v == past_k"}


@pytest.mark.slow  # quick: tests/dims/test_asked_by_ops.py has ops that ask for equal sizes
def test_sizes_that_an_op_of_the_users_own_wants_equal_get_one_dim() -> None:
    """What no shape function says, the runs say."""
    args, dims = (torch.randn(5), torch.randn(5), torch.randn(5)), tuple({0: Dim(name, max=64)} for name in "abc")
    fix = fix_dims(Zipped(), args, dynamic_shapes=dims)
    assert fix.proven
    roots = [leaf.root for leaf in fix.plan.leaves.values()]
    assert roots[0] == roots[2] != roots[1]
    why = [reason for change in fix.changes for reason in change.why]
    assert {reason.by for reason in why} == {"trtdiag_tests.zipped.default"}
    assert {reason.text for reason in why} < {"a == c", "c == a"}  # torch numbers its symbols as it likes
    assert {reason.counterexample for reason in why} < {"a = 1, c = 2", "c = 1, a = 2"}
    assert {a < b for a, b in _pairs(fix, "x.shape[0]", "y.shape[0]") if a != b} == {True, False}


@pytest.mark.slow
def test_four_sizes_of_one_op_become_two() -> None:
    args = (torch.randn(1, 2, 3, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 1, 3, 5))
    dims: Any = ({2: Dim("q", max=50)}, {2: Dim("k", max=50)}, {2: Dim("v", max=50)}, None)
    dims = (*dims[:3], {2: Dim("mq", max=50), 3: Dim("mk", max=50)})
    fix = fix_dims(Masked(), args, dynamic_shapes=dims)
    roots = {site: leaf.root for site, leaf in fix.plan.leaves.items() if leaf.kind is LeafKind.DIM}
    assert fix.proven
    assert roots["k.shape[2]"] == roots["v.shape[2]"] == roots["mask.shape[3]"]
    assert roots["q.shape[2]"] == roots["mask.shape[2]"] != roots["k.shape[2]"]
    assert {q < k for q, k in _pairs(fix, "q.shape[2]", "k.shape[2]") if q != k} == {True, False}


@pytest.mark.slow  # quick: positions inside of a table, in tests/dims/test_asked_by_ops.py
def test_a_table_of_positions_ends_the_range() -> None:
    dims = ({0: Dim("b", max=4), 1: Dim("n", max=64)},)
    fix = fix_dims(Positions(37).eval(), (torch.randint(0, 100, (2, 7)),), dynamic_shapes=dims)
    assert fix.proven
    assert fix.plan.range_of(fix.plan.leaves["ids.shape[1]"].root).max == 37
    assert (4, 37) in _pairs(fix, "ids.shape[0]", "ids.shape[1]")
    assert {b < n for b, n in _pairs(fix, "ids.shape[0]", "ids.shape[1]") if b > 1 and n > 1} == {True, False}


def test_contents_that_do_not_fit_other_sizes_refuse_none() -> None:
    """Of 4 image tokens in 9 as many as there are features: at other sizes they are not, whatever the dims are."""
    ids = torch.tensor([[3, 1, 49, 49, 49, 49, 7, 2, 5]])
    dims = ({1: Dim("n", max=64)}, {0: Dim("features", max=16)})
    fix = fix_dims(ImageTokens(), (ids, torch.randn(4, 8)), dynamic_shapes=dims)
    assert fix.proven
    assert fix.outcome is Outcome.UNCHANGED
    assert any("not decided at " in why for why in fix.confirmation.not_on_data)


def test_without_data_it_is_said() -> None:
    module = torch.nn.Linear(4, 3, device="meta")
    fix = fix_dims(module, (torch.randn(2, 4, device="meta"),), dynamic_shapes=({0: Dim("b", max=64)},))
    assert fix.proven
    assert fix.confirmation.not_on_data == ("the model is on the meta device, without data",)
    assert fix_verdict(fix).text.endswith("exported, not run on real data")


def test_where_nothing_mends_it_nothing_is_proven() -> None:
    """An op of the user's own whose shape function leaves out what it asks for."""
    args, dims = (torch.randn(5),), ({0: Dim("n", max=64)},)
    fix = fix_dims(Picky(), args, dynamic_shapes=dims)
    assert not fix.proven
    assert fix.proof.detail == "the program fails at x.shape[0] = 3: ValueError: 3 does not suit"
    assert fix.confirmation.exported is False


class Branching(torch.nn.Module):
    """A branch on data, beside keys and values that must be equally long."""

    def forward(self, x: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Attention of what a branch gives."""
        query = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a + 1, (x,))
        return functional.scaled_dot_product_attention(query, key, value)


@pytest.mark.slow  # quick: contents that do not fit; branches in tests/lower/test_nested_graphs.py
def test_a_program_with_a_branch_on_data_runs_on_data() -> None:
    args = tuple(torch.randn(1, 1, length, 8) for length in (3, 5, 5))
    dims = {name: {2: Dim(name, min=1, max=16)} for name in ("x", "key", "value")}
    fix = fix_dims(Branching(), args, dynamic_shapes=dims)
    assert fix.proven
    assert fix.confirmation.ran_on_data
    assert not any("example" in each for each in fix.confirmation.not_on_data)


class AsksWhatASizeIs(torch.nn.Module):
    """While it is traced, a size is no int."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if isinstance(x.shape[0], int) else x + 1


def test_a_program_that_is_another_than_its_model_at_the_example_is_not_proven() -> None:
    fix = fix_dims(AsksWhatASizeIs(), (torch.randn(5),), dynamic_shapes=({0: Dim("n", max=64)},))
    assert not fix.proven
    assert fix.proof.detail == "with the example inputs the program gives other values, compared with the model"
    assert any("whether a size is an int" in note for note in fix.notes)


class TakesComplexNumbers(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 1j).real


def test_inputs_that_have_no_order_are_made_at_other_sizes() -> None:
    x = torch.randn(5, dtype=torch.complex64)
    fix = fix_dims(TakesComplexNumbers(), (x,), dynamic_shapes=({0: Dim("n", min=1, max=64)},))
    assert fix.proven
    assert fix.confirmation.ran_on_data


class MoreThanOneNumber(torch.nn.Module):
    """As an instance norm of maps: no guard is left of it, since torch traces as if no size were 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.numel() == 1:
            raise ValueError("more than one number is needed")
        return x * 2


def test_sizes_that_are_refused_together_cost_one_of_them_its_least() -> None:
    dims = ({0: Dim("h", min=1, max=64), 1: Dim("w", min=1, max=64)},)
    fix = fix_dims(MoreThanOneNumber(), (torch.randn(5, 7),), dynamic_shapes=dims)
    assert fix.proven
    assert sorted(change.kept or () for change in fix.changes) == [(63, 64)]
    for size in ((1, 2), (3, 2), (64, 64)):
        assert torch.equal(fix.program.module()(x := torch.rand(size)), x * 2)


class CountsUpToItsSize(torch.nn.Module):
    """torch.export checks that there are 2 counts at least, as if no size were 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bincount(x, minlength=x.shape[0])


def test_a_size_at_which_a_check_refuses_data_that_the_model_takes_is_left_out() -> None:
    fix = fix_dims(
        CountsUpToItsSize(), (torch.tensor([3, 1, 2, 0, 4]),), dynamic_shapes=({0: Dim("n", min=1, max=40)},)
    )
    assert fix.proven
    assert fix.plan.defs[0].range.min == 2
    program = fix.program.module()
    for size in (2, 3, 40):
        x = torch.zeros(size, dtype=torch.int64)
        assert torch.equal(program(x), torch.bincount(x, minlength=size))


class IndexedByNumbers(torch.nn.Module):
    def __init__(self, *rows: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.tensor(rows))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ x.mT)[:, self.rows, self.rows]


def test_indices_that_are_numbers_of_the_model_ask_for_a_least_size() -> None:
    """Of ten places on a side none is equal to their number."""
    dims = ({0: Dim("b", min=1, max=6), 1: Dim("s", min=1, max=20)},)
    fix = fix_dims(IndexedByNumbers(0, 1, 1, 2, 2, 2, 3, 3, 3, 3), (torch.randn(2, 6, 8),), dynamic_shapes=dims)
    assert fix.proven
    assert [(change.name, change.after) for change in fix.changes] == [("s", "s: 4..20")]
    assert not fix.plan.sizes


def test_a_program_that_fails_with_its_example_is_not_proven() -> None:
    fix = fix_dims(IndexedByNumbers(7), (torch.randn(2, 6, 8),), dynamic_shapes=({0: Dim("b", min=1, max=6)},))
    assert not fix.proven
    assert fix.proof.detail.startswith("it fails at the example itself: IndexError")


class DoubledWhereMany(torch.nn.Module):
    """Goes another way for what an input holds."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        number = count.item()
        return x * 2 if number > 3 else x


def test_a_check_of_an_integer_that_is_no_index_ends_no_range() -> None:
    """It may be one, so that it was made small where sizes are small, and the assumed check refused it for that."""
    dims = ({1: Dim("n", min=1, max=20)}, None)
    fix = fix_dims(DoubledWhereMany(), (torch.randn(2, 9), torch.tensor(4)), dynamic_shapes=dims)
    assert [check.code for check in fix.checks] == ["torch._check(number > 3)"]
    assert not fix.changes


class AnotherOfOne(torch.nn.Module):
    """Checks an integer, and goes another way for a size of 1, of which torch leaves no guard."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        torch._check(count.item() > 3)
        return x * 3 if x.shape[1] == 1 else x * 2


def test_sizes_that_run_with_the_integer_of_the_example_are_compared_with_the_model() -> None:
    dims = ({1: Dim("n", min=1, max=20)}, None)
    fix = fix_dims(AnotherOfOne(), (torch.randn(2, 9), torch.tensor(4)), dynamic_shapes=dims)
    assert [change.after for change in fix.changes] == ["n: 2..20"]


class Placeholders(torch.nn.Module):
    """Two features for the two places that are kept for them in a text of any length, as models of images check."""

    def forward(self, ids: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        kept = ids == 9
        right = (kept.sum() == 2).item()
        torch._check(right)
        return torch.zeros(ids.shape[0]).masked_scatter(kept, features)


def test_a_check_of_what_the_inputs_hold_ends_no_range() -> None:
    """A longer text that repeats the example has more such places, and fails for that."""
    args = torch.tensor([9, 9, 1, 2, 3]), torch.ones(2)
    fix = fix_dims(Placeholders(), args, dynamic_shapes=({0: Dim("t", min=5, max=40)}, None))
    assert fix.outcome is Outcome.UNCHANGED
    (note,) = fix.confirmation.not_on_data
    assert "what the inputs hold" in note


class PositiveAlone(torch.nn.Module):
    """Keeps what is positive, where that is more than three."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x.gt(0).nonzero()
        if found.shape[0] > 3:
            return found * 2
        return found


def test_a_check_that_the_model_does_not_have_yet_ends_no_range() -> None:
    """Few drawn numbers are positive, and the model, which goes its other way then, was the measure: n >= 8."""
    x = torch.tensor([1.0, -1.0, 2.0, 3.0, 4.0, -5.0, 6.0, 7.0, 8.0, 9.0, -2.0, 5.0])
    fix = fix_dims(PositiveAlone(), (x,), dynamic_shapes=({0: Dim("n", min=1, max=40)},))
    assert [check.code for check in fix.checks] == ["torch._check(found.shape[0] > 3)"]
    assert fix.plan.defs[0].range.min == 4  # of fewer numbers no more than 3 are positive
    (change,) = fix.changes
    assert not any("u0" in reason.text for reason in change.why)
