"""Ops whose results have as many elements as the data says: torch's samples, masks of every kind, the limits."""

from __future__ import annotations

import pytest
import torch

from tests.convert import op_check
from tests.convert.op_check import OLD_THEN_NEW, Outcome, check_op
from tests.convert.sampled_ops import GREATEST, Sampled, run_samples
from tests.harness.rows import thinned
from trtdiag.convert.registry import converters
from trtdiag.network import run

aten = torch.ops.aten
# A sample is broadcast, where torch's own shape function fails for other dynamic sizes.
_SAME_SHAPES = {"dynamic": False}

SAMPLED = [
    Sampled("aten.nonzero.default", ("nonzero",), limits=("no-dims",)),
    Sampled("aten.argwhere.default", ("argwhere",), limits=("no-dims",)),
    Sampled("aten.masked_select.default", ("masked_select",), **_SAME_SHAPES),
    # Few of its samples have dims, and those are greater than dynamic ones may be; test_the_first_places is dynamic.
    Sampled("aten.nonzero_static.default", ("nonzero_static",), limits=("no-dims",), dynamic=False),
]


@pytest.mark.parametrize("case", [case for sampled in SAMPLED for case in sampled.cases()])
def test_samples(case: tuple[Sampled, torch.dtype, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    run_samples(case, monkeypatch, most=6)  # the first of nonzero_static have no dims


# The newest is slow: it has the layers of 10.16.
@pytest.mark.parametrize("target", ["10.16", pytest.param("11.4", marks=pytest.mark.slow)])
@pytest.mark.parametrize("op", [aten.where.default, aten.nonzero_numpy.default, aten.nonzero.default])
def test_places(op: torch._ops.OpOverload, target: str) -> None:
    torch.manual_seed(0)
    for shape in ((7,), (1, 5), (3, 5, 2), (2, 1, 3, 5)):
        assert not check_op(op, (torch.rand(shape) > 0.5,), target=target, dynamic=len(shape) < 3).limits


def test_one_of_several_outputs_is_read() -> None:
    outcome = check_op(aten.where.default, (torch.rand(3, 5) > 0.5,), read=(1,), dynamic=True)
    assert not outcome.limits
    assert _kinds(outcome).count("NonZero") == 1


X = torch.arange(210.0).reshape(2, 3, 5, 7)
NONE = None
INDICES = {
    "first dim": [torch.tensor([True, False])],
    "last dim": [NONE, NONE, NONE, torch.rand(7) > 0.5],
    "two dims": [torch.rand(2, 3) > 0.5],
    "two dims in the middle": [NONE, torch.rand(3, 5) > 0.5],
    "two last dims": [NONE, NONE, torch.rand(5, 7) > 0.3],
    "every dim": [torch.rand(2, 3, 5, 7) > 0.5],
    "a mask beside an index": [torch.tensor([True, False]), torch.tensor([1])],
    "a mask apart from an index": [torch.tensor([False, True]), NONE, torch.tensor([[3], [0]])],
    "an index before a mask": [torch.tensor([1]), torch.rand(3, 5) > 0.4],
    "an index behind a mask": [NONE, torch.rand(3, 5) > 0.4, torch.tensor([-2])],
    "none": [torch.tensor([False, False])],
    "all": [torch.ones(2, 3, dtype=torch.bool)],
}


# The newest is slow: it has the layers of 10.16.
@pytest.mark.parametrize("target", ["10.16", pytest.param("11.4", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", INDICES)
def test_masks_among_indices(name: str, target: str) -> None:
    outcome = check_op(aten.index.Tensor, (X, INDICES[name]), target=target)
    assert not outcome.limits, outcome.limits
    assert outcome.converted is not None
    (count,) = outcome.converted.network.counts
    assert count.startswith("u")


def test_a_mask_of_dynamic_size() -> None:
    x, mask = torch.randn(5, 3), torch.tensor([True, False, True, True, False])
    outcome = check_op(aten.index.Tensor, (x, [mask]), dynamic=True, shared=True)
    assert not outcome.limits
    assert outcome.sizes > 1
    assert _kinds(outcome) == ["NonZero", "Shuffle", "Gather"]


def test_a_mask_takes_few_layers() -> None:
    outcome = check_op(aten.index.Tensor, (X, [torch.rand(2, 3) > 0.5]))
    assert _kinds(outcome) == ["NonZero", "Shuffle", "Gather"]


def test_what_holds_nowhere_gives_nothing() -> None:
    outcome = check_op(aten.nonzero.default, (torch.randn(3, 4),))
    assert outcome.converted is not None
    (made,) = run(outcome.converted.network, [torch.zeros(3, 4)])
    assert made.shape == (0, 2)
    (made,) = run(outcome.converted.network, [torch.full((3, 4), float("nan"))])  # NaN is not zero
    assert made.shape == (12, 2)


def test_limits() -> None:
    def codes(*args: object) -> set[str]:
        return {limit.code for limit in check_op(*args).limits.values()}  # type: ignore[arg-type]

    assert codes(aten.nonzero.default, (torch.tensor(1.0),)) == {"no-dims"}
    assert not codes(aten.nonzero.default, (torch.ones(1),))
    assert codes(aten.index.Tensor, (torch.randn(3), [torch.tensor(True)])) == {"no-dims"}
    beside = [torch.tensor([True, False]), torch.tensor(1)]
    assert codes(aten.index.Tensor, (X, beside)) == {"output-unknown"}


def test_a_target_may_not_build_them() -> None:
    for op, args in ((aten.nonzero.default, (X,)), (aten.index.Tensor, (X, INDICES["every dim"]))):
        (limit,) = check_op(op, args, target="8.6").limits.values()
        assert limit.code == "data-dependent-shape"
        assert "8.6" in limit.why


@pytest.mark.parametrize("target", OLD_THEN_NEW)
# Quick: the least and the greatest rank.
@thinned("shape", [(1,), (13,), (3, 5), (2, 1, 7)], every=3)
def test_the_first_places(shape: tuple[int, ...], target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_check, "GREATEST", GREATEST)  # a running sum of 8.6 compares each element with each
    torch.manual_seed(0)
    x = torch.rand(shape) - 0.5
    for chosen in (x.clamp(min=0), torch.zeros(shape), torch.ones(shape)):
        for size in (0, 1, 4, 40):
            kwargs = {"size": size, "fill_value": -3}
            outcome = check_op(aten.nonzero_static.default, (chosen,), kwargs, target=target, dynamic=len(shape) == 2)
            assert not outcome.limits
            assert outcome.converted is not None
            assert not outcome.converted.network.counts


def test_a_mask_whose_size_is_not_proven_is_refused() -> None:
    x, mask = torch.randn(5, 3), torch.tensor([True, False, True, True, False])
    outcome = check_op(aten.index.Tensor, (x, [mask]), dynamic=True)
    assert {limit.code for limit in outcome.limits.values()} <= {"size-not-proven"}


def test_every_converter_is_tested() -> None:
    here = {converter.op for converter in converters().values() if converter.family in ("nonzero", "nonzero_static")}
    by_hand = {"aten.where.default", "aten.nonzero_numpy.default"}
    assert here == {sampled.op for sampled in SAMPLED} | by_hand


def _kinds(outcome: Outcome) -> list[str]:
    assert outcome.converted is not None
    return [placed.layer.kind for placed in outcome.converted.network.layers]
