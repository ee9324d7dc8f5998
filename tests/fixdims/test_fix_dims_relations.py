"""Dims that depend on each other: shared, derived, worked out by torch, ordered."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import trtdiag
from tests.fixdims import small_models as models
from tests.fixdims.test_fix_dims_examples import change_of
from trtdiag.analysis.finding import Severity
from trtdiag.dims.plan import LeafKind
from trtdiag.fixdims.fix import Outcome
from trtdiag.fixdims.run import fix_dims
from trtdiag.symbolic.ranges import Range


@pytest.mark.slow  # quick: test_fix_dims_examples.py
def test_dims_that_must_be_equal_share_the_common_part_of_their_ranges() -> None:
    spec = {"x": {0: Dim("a", min=2, max=10)}, "y": {0: Dim("b", min=8, max=61)}}
    fix = fix_dims(models.Sum(), (torch.randn(8, 3), torch.randn(8, 3)), dynamic_shapes=spec)
    assert fix.dynamic_shapes["x"][0] is fix.dynamic_shapes["y"][0]
    assert fix.plan.range_of(fix.plan.leaves["x.shape[0]"].root) == Range(8, 10)
    assert change_of(fix, "b").kind == "shared"
    assert any(reason.text in ("a == b", "b == a") for reason in change_of(fix, "b").why)
    for size in (8, 9, 10):
        assert fix.program.module()(torch.ones(size, 3), torch.ones(size, 3)).shape == (size, 3)


@pytest.mark.slow  # quick: dims that must be equal share their ranges
def test_dims_that_are_equal_but_keep_their_range_are_still_a_change() -> None:
    spec = {"x": {0: Dim("a", min=2, max=10)}, "y": {0: Dim("b", min=2, max=10)}}
    fix = fix_dims(models.Sum(), (torch.randn(7, 3), torch.randn(7, 3)), dynamic_shapes=spec)
    assert fix.outcome is Outcome.CHANGED
    assert {change.kind for change in fix.changes} == {"shared"}
    assert all(change.kept == (9, 9) and change.lost == "" for change in fix.changes)


@pytest.mark.slow  # quick: tests/fixdims/test_choose_cases.py has sums
def test_a_sum_of_two_sizes_is_left_to_torch() -> None:
    spec = {"a": {1: Dim("p", min=2, max=511)}, "b": {1: Dim("q", min=2, max=13)}, "c": {1: Dim("r", max=1024)}}
    args = (torch.randn(2, 5), torch.randn(2, 7), torch.randn(2, 12))
    fix = fix_dims(models.Concatenated(), args, dynamic_shapes=spec)
    assert fix.plan.leaves["c.shape[1]"].kind is LeafKind.AUTO
    assert fix.plan.leaves["a.shape[1]"].kind is LeafKind.DIM
    assert fix.confirmation.exported
    assert fix.proven
    program = fix.program.module()
    for p, q in ((2, 2), (511, 13), (2, 13), (509, 2)):
        assert program(torch.ones(2, p), torch.ones(2, q), torch.ones(2, p + q)).shape == (2, p + q)


@pytest.mark.slow  # quick: dims that must be equal share their ranges; hints are mended in test_spell_exports.py
def test_sizes_that_a_hint_would_cost_are_kept_by_a_named_dim() -> None:
    # torch bounds a size under a hint as if those it is made of began at 2: with Dim.AUTO its program refuses 1 + 1.
    spec = {"a": {1: Dim("p", min=1, max=511)}, "b": {1: Dim("q", min=1, max=13)}, "c": {1: Dim("r", max=1024)}}
    args = (torch.randn(2, 5), torch.randn(2, 7), torch.randn(2, 12))
    fix = fix_dims(models.Concatenated(), args, dynamic_shapes=spec)
    assert fix.confirmation.exported
    assert (fix.plan.range_of("p"), fix.plan.range_of("q")) == (Range(1, 511), Range(1, 13))
    assert fix.plan.leaves["c.shape[1]"].kind is LeafKind.DIM
    assert fix.program.module()(torch.ones(2, 1), torch.ones(2, 1), torch.ones(2, 2)).shape == (2, 2)


@pytest.mark.slow  # quick: only what a derived dim can say, in tests/fixdims/test_choose_cases.py
def test_a_relation_that_falls_is_left_to_torch() -> None:
    spec = {"x": {0: Dim("dx", min=2, max=10)}, "y": {0: Dim("dy", min=2, max=10)}}
    fix = fix_dims(models.AddUpTo(), (torch.randn(5, 3), torch.randn(7, 3)), dynamic_shapes=spec)
    kinds = {leaf.kind for leaf in fix.plan.leaves.values()}
    assert LeafKind.AUTO in kinds
    assert LeafKind.STATIC not in kinds
    for size in (2, 3, 10):
        fix.program.module()(torch.ones(size, 3), torch.ones(12 - size, 3))


@pytest.mark.slow  # quick: tests/fixdims/test_sizes_in_order.py
def test_two_ordered_sizes_get_ranges_side_by_side() -> None:
    spec = {"x": {0: Dim("m", min=2, max=100)}, "y": {0: Dim("n", min=2, max=100)}}
    fix = fix_dims(models.Ordered(), (torch.randn(5, 3), torch.randn(7, 3)), dynamic_shapes=spec)
    first, second = fix.plan.range_of("m"), fix.plan.range_of("n")
    assert first.max is not None
    assert second.min is not None
    assert first.min == 2
    assert second.max == 100
    assert first.max <= second.min
    # Of all such pairs of ranges around the example 5 and 7 none keeps more combinations.
    most = max((most - 1) * (100 - most + 1) for most in range(5, 8))
    assert (first.max - 1) * (100 - second.min + 1) == most


@pytest.mark.slow  # the quick run has derived dims in test_choose_cases.py and in live fixes
def test_half_the_length_rounded_up_becomes_a_derived_dim() -> None:
    spec = {"x": {1: Dim("t", min=2, max=4096)}, "y": {1: Dim("u", min=2, max=4096)}}
    fix = fix_dims(models.EverySecond(), (torch.randn(2, 20), torch.randn(2, 10)), dynamic_shapes=spec)
    long, short = fix.plan.leaves["x.shape[1]"], fix.plan.leaves["y.shape[1]"]
    assert (long.kind, short.kind) == (LeafKind.DIM, LeafKind.DIM)
    assert long.root == short.root
    assert (long.scale, long.offset, short.scale, short.offset) == (2, 0, 1, 0)
    assert fix.confirmation.exported
    program, range_ = fix.program.module(), fix.plan.range_of(short.root)
    assert range_.max == 2048
    assert range_.min is not None
    for size in (range_.min, 2048):
        assert program(torch.ones(2, 2 * size), torch.ones(2, size)).shape == (2, size)


@pytest.mark.slow  # the quick run has conflicts and ranges side by side
def test_a_range_whose_guards_torch_cannot_see_to_hold_keeps_every_size() -> None:
    fix = fix_dims(models.PaddedWindows(), (torch.randn(2, 48),), dynamic_shapes={"x": {1: Dim("t", min=9, max=2160)}})
    leaf = fix.plan.leaves["x.shape[1]"]
    assert (leaf.kind, leaf.range) == (LeafKind.DYNAMIC, Range(9, 2160))
    assert change_of(fix, "t").kept == (2152, 2152)
    assert fix.proven
    program = fix.program.module()
    for size in (9, 16, 17, 2160):
        assert program(torch.ones(2, size)).shape == (2, -(-size // 8))


@pytest.mark.slow  # quick: conflicts in test_choose_cases.py
def test_equal_dims_with_ranges_apart_are_a_conflict_of_the_guard_and_the_ranges() -> None:
    spec = {"x": {0: Dim("a", min=2, max=7)}, "y": {0: Dim("b", min=11, max=61)}}
    fix = fix_dims(models.Sum(), (torch.randn(5, 3), torch.randn(5, 3)), dynamic_shapes=spec)
    assert fix.outcome is Outcome.IMPOSSIBLE
    (conflict,) = fix.conflicts
    assert any("2..7" in words or "11..61" in words for words in conflict.ranges) or "7" in str(conflict.reasons)
    assert conflict.proof.proven


@pytest.mark.slow  # the quick run has named dims in the place of hints below and above
def test_a_sum_has_a_named_dim_where_a_hint_would_cost_its_smallest_sizes() -> None:
    batch, step = Dim("b", min=1, max=8), Dim("s", min=1, max=61)
    spec = {
        "query": {0: batch, 2: step},
        "past": {0: batch, 2: Dim("p", min=1, max=509)},
        "mask": {0: batch, 2: step, 3: Dim("t", min=1, max=600)},
    }
    args = (torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 1, 5, 12))
    fix = fix_dims(models.Cached(), args, dynamic_shapes=spec)
    assert fix.outcome is Outcome.UNCHANGED
    assert fix.confirmation.exported
    assert fix.proven
    # torch bounds a sum under a hint as if both of its parts began at 2: a step of 1 would be lost.
    leaf = fix.plan.leaves["mask.shape[3]"]
    assert (leaf.kind, leaf.root) == (LeafKind.DIM, "t")
    assert (fix.plan.range_of("b"), fix.plan.range_of("s")) == (Range(1, 8), Range(1, 61))
    program = fix.program.module()
    for b, s, p in ((1, 1, 1), (8, 61, 509), (1, 61, 1), (3, 1, 509)):
        out = program(torch.ones(b, 4, s, 8), torch.ones(b, 4, p, 8), torch.ones(b, 1, s, s + p))
        assert out.shape == (b, 4, s, 8)


class Apart(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if (x.shape[0] > 3) != (x.shape[1] > 5) else x * 2


@pytest.mark.skipif(torch.__version__ < "2.15", reason="before, torch raises TypeError where conditions are compared")
def test_conditions_that_are_compared_with_each_other_are_solved() -> None:
    spec = {"x": {0: Dim("a", min=2, max=64), 1: Dim("b", min=2, max=64)}}
    fix = fix_dims(Apart(), (torch.randn(8, 5),), dynamic_shapes=spec)
    assert fix.proven
    assert fix.plan.range_of("a") == Range(4, 64)
    assert fix.plan.range_of("b") == Range(2, 5)
    for sizes in ((4, 2), (4, 5), (64, 2), (64, 5)):
        assert torch.equal(fix.program.module()(torch.ones(sizes)), torch.full(sizes, 2.0))


@pytest.mark.slow  # the quick run has a hint that costs sizes, below
def test_hints_that_ask_for_sizes_of_0_and_1_become_named_dims() -> None:
    step, past = Dim.DYNAMIC(min=1, max=61), Dim.DYNAMIC(min=0, max=509)
    spec = {"query": {2: step}, "past": {2: past}, "mask": {2: step, 3: Dim.AUTO}}
    args = (torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 1, 5, 12))
    fix = fix_dims(models.Cached(), args, dynamic_shapes=spec)
    assert fix.proven
    assert all(leaf.kind is not LeafKind.DYNAMIC for leaf in fix.plan.leaves.values())
    assert change_of(fix, "query.shape[2]").kept == (61, 61)
    assert change_of(fix, "past.shape[2]").kept == (510, 510)
    assert any("began at 2" in reason.text for reason in change_of(fix, "past.shape[2]").why)
    assert {(int(v.lower), int(v.upper)) for v in fix.program.range_constraints.values()} == {
        (1, 61),
        (0, 509),
        (1, 570),
    }
    program = fix.program.module()
    for s, p in ((1, 0), (1, 1), (61, 0), (1, 509)):
        out = program(torch.ones(2, 4, s, 8), torch.ones(2, 4, p, 8), torch.ones(2, 1, s, s + p))
        assert out.shape == (2, 4, s, 8)


@pytest.mark.slow  # what a hint leaves out is counted here alone
def test_a_size_that_a_hint_leaves_out_of_the_program_is_not_counted_as_kept() -> None:
    fix = fix_dims(models.PaddedWindows(), (torch.randn(2, 48),), dynamic_shapes={"x": {1: Dim("t", min=1, max=2160)}})
    leaf = fix.plan.leaves["x.shape[1]"]
    (range_,) = fix.program.range_constraints.values()
    kept = change_of(fix, "t").kept
    assert leaf.kind is LeafKind.DYNAMIC
    assert kept == (int(range_.upper) - int(range_.lower) + 1, 2160)


class TokensAndPatches(torch.nn.Module):
    """Text and image in one sequence, their masks in another: sums alone say that a patch has a place in the mask."""

    def forward(self, text: torch.Tensor, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        both = torch.cat([text, image], 1)
        return both * torch.cat([torch.ones_like(text[..., 0]), mask], 1)[..., None]


def test_one_dim_of_two_symbols_that_a_sum_ties_is_one_dim() -> None:
    batch, patches = Dim("batch", min=1, max=9), Dim("patches", min=1, max=17)
    shapes = ({0: batch, 1: Dim("tokens", min=1, max=16)}, {0: batch, 1: patches}, {0: batch, 1: patches})
    asked = (TokensAndPatches(), (torch.randn(2, 7, 4), torch.randn(2, 5, 4), torch.ones(2, 5)), {}, shapes)
    fix = fix_dims(*asked[:3], dynamic_shapes=shapes)
    assert (fix.outcome, fix.proven) == (Outcome.UNCHANGED, True)
    # A program does not say how its dims were declared.
    for source in (asked, torch.export.export(*asked[:2], dynamic_shapes=shapes)):
        assert not [finding for finding in trtdiag.analyze(source).findings if finding.severity is Severity.ERROR]


class MaskOfBoth(torch.nn.Module):
    """The mask has a place for each token and patch."""

    def forward(self, text: torch.Tensor, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cat([text, image], 1) * mask[..., None]


def test_a_sum_that_torch_has_tied_by_itself_is_no_error() -> None:
    tokens, patches, places = Dim("tokens", max=16), Dim("patches", max=16), Dim("places", min=2, max=32)
    args = (torch.randn(2, 7, 4), torch.randn(2, 5, 4), torch.ones(2, 12))
    (found,) = [
        finding
        for finding in trtdiag.analyze((MaskOfBoth(), args, {}, ({1: tokens}, {1: patches}, {1: places}))).findings
        if finding.rule == "GRD307"
    ]
    assert found.severity is Severity.WARNING  # compile would refuse what fix-dims leaves as it is


class Differences(torch.nn.Module):
    """As many weights as there are steps between neighbours."""

    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (x[:, 1:] - x[:, :-1]) * weights


@pytest.mark.parametrize("offset", [0, 2])
def test_a_relation_that_is_declared_over_another_root_than_torchs_is_left_as_it_is(offset: int) -> None:
    n = Dim("n", min=3, max=16)
    shapes = {"x": {1: n + offset}, "weights": {1: n + (offset - 1)}}
    asked = (Differences(), (torch.randn(2, 8), torch.randn(2, 7)), {}, shapes)
    fix = fix_dims(*asked[:3], dynamic_shapes=shapes)
    assert (fix.outcome, fix.proven) == (Outcome.UNCHANGED, True)
    assert not [finding for finding in trtdiag.analyze(asked).findings if finding.severity is Severity.ERROR]


class Best(torch.nn.Module):
    def forward(self, scores: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        best = scores.topk(min(20, scores.shape[0]))[1]
        return boxes.index_select(0, best)


@pytest.mark.parametrize("more", [0, 1])
def test_a_shared_dim_that_torch_refuses_under_its_own_name_gets_another(more: int) -> None:
    n = Dim("n", min=1, max=64)
    boxes = n + more if more else n
    args = torch.randn(24), torch.randn(24 + more, 4)
    fix = fix_dims(Best(), args, dynamic_shapes=({0: n}, {0: boxes}))
    assert (fix.outcome, fix.proven) == (Outcome.CHANGED, True)
    assert fix.program.module()(torch.randn(1), torch.randn(1 + more, 4)).shape == (1, 4)


class ThreeKinds(torch.nn.Module):
    """Only a multiple of 3 of places goes on: of two sizes that vary, one has to follow the other."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        both = torch.cat([a, b], 1)
        return both @ c + a.sum() if both.shape[1] % 3 == 0 else both @ c


def test_a_derived_dim_of_two_symbols_is_compiled_as_it_was_saved() -> None:
    rows, places = Dim("rows", min=2, max=40), Dim("places", min=4, max=15)
    shapes = {"a": {0: rows, 1: 2 * places - 6}, "b": {0: rows, 1: places}, "c": {0: 3 * places - 6}}  # of fix-dims
    args = torch.rand(5, 4), torch.rand(5, 5), torch.rand(9, 6)
    program = torch.export.export(ThreeKinds(), args, dynamic_shapes=shapes)
    guards = str(program._guards_code)
    assert "L['a'].size()[1] == ((-6) + 2*L['b'].size()[1])" in guards, "torch has two symbols for the two dims"
    assert not [finding for finding in trtdiag.analyze(program).findings if finding.severity is Severity.ERROR]
    compiled = trtdiag.compile(program, backend="reference", verify=False)
    given = torch.rand(3, 8), torch.rand(3, 7), torch.rand(15, 6)
    torch.testing.assert_close(compiled(*given), ThreeKinds()(*given))
    with pytest.raises(trtdiag.ShapeOutOfRangeError):
        compiled(torch.rand(3, 7), torch.rand(3, 8), torch.rand(15, 6))
