"""Reductions, order and running sums against PyTorch: torch's samples, the limits, and what samples leave out."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.export import Dim

from tests.convert import op_check
from tests.convert.function_program import converted as one_segment
from tests.convert.op_check import OLD_THEN_NEW, check_op
from tests.convert.op_samples import Sample
from tests.convert.sampled_ops import FLOATS, NUMBERS, Sampled, run_samples
from tests.harness.rows import thinned
from trtdiag.convert.layer_writers import topk
from trtdiag.convert.registry import converters
from trtdiag.network import DType, run
from trtdiag.network.layers.reduce import TopK

aten = torch.ops.aten
_ONE_TENSOR = {"takes": lambda sample: not any(isinstance(arg, torch.Tensor) for arg in sample.args[1:])}


def _values_only(expected: torch.Tensor, actual: torch.Tensor) -> None:
    """Of samples that repeat elements: which of equal ones comes first is open."""
    assert actual.shape == expected.shape
    if expected.is_floating_point():
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def _short(sample: Sample) -> bool:
    return sample.args[0].dim() == 0 or max(sample.args[0].shape) <= 3840


SAMPLED = [
    Sampled("aten.sum.default", ("sum",)),
    Sampled("aten.sum.dim_IntList", ("sum",)),
    Sampled("aten.mean.default", ("mean",), FLOATS),
    Sampled("aten.mean.dim", ("mean",), FLOATS),
    Sampled("aten.prod.default", ("prod",)),
    Sampled("aten.prod.dim_int", ("prod",)),
    Sampled("aten.amax.default", ("amax",)),
    Sampled("aten.amin.default", ("amin",)),
    Sampled("aten.any.default", ("any",)),
    Sampled("aten.any.dim", ("any",)),
    Sampled("aten.any.dims", ("any",)),
    Sampled("aten.all.default", ("all",)),
    Sampled("aten.all.dim", ("all",)),
    Sampled("aten.all.dims", ("all",)),
    Sampled("aten.argmax.default", ("argmax",), NUMBERS),
    Sampled("aten.argmin.default", ("argmin",), NUMBERS),
    Sampled("aten.max.default", ("max",)),
    Sampled("aten.max.dim", ("max",), **_ONE_TENSOR),
    Sampled("aten.min.default", ("min",)),
    Sampled("aten.min.dim", ("min",), **_ONE_TENSOR),
    Sampled("aten.aminmax.default", ("aminmax",)),
    Sampled("aten.var.correction", ("var",), FLOATS),
    Sampled("aten.std.correction", ("std",), FLOATS),
    Sampled("aten.var_mean.correction", ("var_mean",), FLOATS),
    Sampled("aten.std_mean.correction", ("std_mean",), FLOATS),
    Sampled("aten.linalg_vector_norm.default", ("linalg.vector_norm",), FLOATS),
    Sampled("aten.norm.Scalar", ("norm",), FLOATS),
    Sampled("aten.norm.ScalarOpt_dim", ("norm",), FLOATS),
    Sampled("aten.logsumexp.default", ("logsumexp",), NUMBERS),
    Sampled("aten.count_nonzero.default", ("count_nonzero",)),
    Sampled("aten.count_nonzero.dim_IntList", ("count_nonzero",)),
    Sampled("aten.cumsum.default", ("cumsum",), NUMBERS),
    Sampled("aten.cumprod.default", ("cumprod",), NUMBERS),
    Sampled("aten.sort.default", ("sort",), takes=_short),
    Sampled("aten.sort.stable", ("sort",), takes=_short),
    Sampled("aten.argsort.default", ("argsort",), takes=_short),
    Sampled("aten.argsort.stable", ("argsort",), takes=_short),
    Sampled("aten.topk.default", ("topk",), FLOATS, compare=_values_only),
    Sampled("aten.kthvalue.default", ("kthvalue",), FLOATS, compare=_values_only),
    Sampled("aten.median.default", ("median",), NUMBERS, limits=("top-k",)),
    Sampled("aten.median.dim", ("median",), FLOATS, compare=_values_only),
]


@pytest.mark.parametrize("case", [case for sampled in SAMPLED for case in sampled.cases()])
def test_samples(case: tuple[Sampled, torch.dtype, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    run_samples(case, monkeypatch, most=4)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for sampled in SAMPLED for case in sampled.cases()])
def test_more_samples(case: tuple[Sampled, torch.dtype, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    run_samples(case, monkeypatch, most=6)


OLDEST = ("sum.dim_IntList", "any.dim", "argmax.default", "max.dim", "var.correction", "cumsum.default", "sort.default")


# Quick: the dtype that the target lacks.
@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.slow), torch.int64], ids=str)
@pytest.mark.parametrize("name", OLDEST)
def test_target_without_int64(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes, indices and sums are int32 there, and running sums have no layer."""
    (sampled,) = (one for one in SAMPLED if one.op == f"aten.{name}")
    if dtype in sampled.dtypes:
        for dynamic in (False, True):
            run_samples((sampled, dtype, dynamic), monkeypatch, target="8.6", most=4)


def _codes(op: Any, *args: Any, dynamic: bool = False, **kwargs: Any) -> set[str]:
    return {limit.code for limit in check_op(op, args, kwargs, dynamic=dynamic).limits.values()}


def _without_repeats(*shape: int) -> torch.Tensor:
    return torch.randperm(math.prod(shape), generator=torch.Generator().manual_seed(1)).reshape(shape).float()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 4, 7])
def test_first_in_order_with_places(k: int, largest: bool) -> None:
    assert not _codes(aten.topk.default, _without_repeats(3, 7), k, -1, largest)
    assert not _codes(aten.topk.default, _without_repeats(7, 3, 2, 2, 2, 2), k, 0, largest)


@pytest.mark.parametrize("size", [1, 2, 7, 8])
def test_middle_with_places(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_check, "GREATEST", 16)
    x = _without_repeats(size, 3)
    for dynamic in (False, True):
        assert not _codes(aten.median.default, x, dynamic=dynamic)
    assert not _codes(aten.median.dim, x, 0, True)
    assert not _codes(aten.kthvalue.default, x, size, 0)
    x[0, 0] = math.nan
    assert check_op(aten.median.dim, (x, 0), compare=_values_only).sizes == 1


def test_most_elements_that_are_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,840 by the layer; 16,384 by comparing all with all, of which a test takes fewer."""
    for op in (aten.sort.default, aten.argsort.default):
        assert not _codes(op, _without_repeats(3840))
        assert not _codes(op, _without_repeats(3841))
    assert not _codes(aten.topk.default, _without_repeats(5000), 3840)
    assert not _codes(aten.topk.default, _without_repeats(5000), 3841)
    monkeypatch.setattr(topk, "MOST_PAIRS", 1 << 20)
    assert not _codes(aten.sort.default, _without_repeats(4096))
    assert _codes(aten.sort.default, _without_repeats(4097)) == {"top-k"}
    for greatest, expected in ((3840, set()), (4097, {"top-k"})):
        monkeypatch.setattr(op_check, "GREATEST", greatest)
        assert _codes(aten.sort.stable, _without_repeats(2, 11), stable=True, dynamic=True) == expected


@pytest.mark.parametrize("descending", [False, True])
def test_a_nan_loses_no_other_element_where_all_are_compared_with_all(descending: bool) -> None:
    x = _without_repeats(3850)
    x[[5, 17]], x[9] = math.nan, -math.inf
    assert check_op(aten.sort.default, (x, 0, descending), compare=_values_only).sizes == 1


# Quick: downwards, as top-k goes, along the last axis.
@pytest.mark.parametrize("axis", [1, pytest.param(0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("descending", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_more_elements_than_the_layer_puts_in_order(
    target: str, descending: bool, axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three parts of comparisons, of which the last is shorter; equal elements keep their order."""
    monkeypatch.setattr(topk, "MOST_K", 9)
    monkeypatch.setattr(topk, "MOST_PAIRS", 24 * 8 * 3)
    monkeypatch.setattr(topk, "MOST_PARTS", 40)
    monkeypatch.setattr(op_check, "GREATEST", 25)
    values = _without_repeats(3, 23) // 2
    x = values if axis else values.T.contiguous()
    for dynamic in (False, True):
        outcome = check_op(aten.sort.stable, (x,), _sorting(axis, descending), dynamic=dynamic, target=target)
        assert outcome.converted is not None
        assert "TopK" not in {placed.layer.kind for placed in outcome.converted.network.layers}
    assert not _codes(aten.topk.default, _without_repeats(3, 23), 10)


# Quick: downwards, as top-k goes, and 64 bits, whose digits are those of 32 and as many again.
@pytest.mark.parametrize("descending", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [pytest.param(torch.int32, marks=pytest.mark.slow), torch.int64], ids=str)
@pytest.mark.slow  # quick: any numbers, in test_large_integers.py
def test_whole_numbers_are_put_in_order_by_their_digits(
    dtype: torch.dtype, descending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topk, "MOST_K", 9)
    monkeypatch.setattr(topk, "MOST_PAIRS", 100)
    ends = torch.iinfo(dtype)
    target = "8.6" if dtype is torch.int32 else "11.4"
    generator = torch.Generator().manual_seed(1)
    for low, high in ((-9, 9), (ends.min, ends.max)):
        x = torch.randint(low, high, (31,), generator=generator, dtype=dtype)
        x[:4] = torch.tensor([ends.max, ends.min, ends.max, ends.min], dtype=dtype)
        for dynamic in (False, True):
            outcome = check_op(aten.sort.stable, (x,), _sorting(0, descending), dynamic=dynamic, target=target)
            assert outcome.converted is not None


def test_places_that_a_topk_gave_have_few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As experts that tokens are sent to: they are below the number of these."""
    monkeypatch.setattr(topk, "MOST_PAIRS", 100)
    monkeypatch.setattr(topk, "MOST_K", 9)

    def sort(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x.topk(2, -1).indices.reshape(-1).sort(stable=True)[1]

    module, segment = one_segment(sort, (torch.randn(40, 16),), ({0: Dim("n", min=9, max=99)},), "11.4")
    kinds = [placed.layer.kind for placed in segment.network.layers]
    assert kinds.count("Scatter") == 1
    for rows in (9, 40, 99):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(run(segment.network, [x])[0], module(x))


@pytest.mark.parametrize("descending", [True, False])
def test_integers_in_order_where_the_layer_takes_none(descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours beyond 2**24 are one float32; equal ones come in order, for no two ranks are equal."""
    monkeypatch.setattr(op_check, "GREATEST", 40)
    x = torch.tensor([[2**24 + 1, 2**24, -(2**31), 2**31 - 1, 2**24, 2**31 - 2, -7]], dtype=torch.int32)
    both = torch.cat([x, x.flip(1)]).long()
    for dynamic in (False, True):
        for axis, values in ((1, both), (0, both.T.contiguous())):
            outcome = check_op(aten.sort.stable, (values,), _sorting(axis, descending), dynamic=dynamic, target="8.6")
            assert outcome.converted is not None
            network = outcome.converted.network
            taken = [network.tensors[p.inputs[0]].dtype for p in network.layers if isinstance(p.layer, TopK)]
            assert taken == [DType.FLOAT32]
    assert not check_op(aten.sort.default, (both > 0, 1), target="8.6", compare=_values_only).limits


def _sorting(axis: int, descending: bool) -> dict[str, Any]:
    return {"stable": True, "dim": axis, "descending": descending}


@pytest.mark.slow  # quick: the most elements that are put in order
def test_most_integers_that_are_put_in_order_where_the_layer_takes_none() -> None:
    one = _without_repeats(2896).int()  # 2896 * 2896 pairs are the most that are below 2 ** 23
    assert check_op(aten.sort.default, (one.expand(2, 2896),), target="8.6").converted is not None
    found = check_op(aten.sort.default, (one.expand(3, 2896),), target="8.6").limits
    assert {limit.code for limit in found.values()} == {"pairs"}
    assert check_op(aten.sort.default, (one.expand(3, 2896),), target="10.16").converted is not None


def test_greatest_of_many_has_no_limit() -> None:
    assert not _codes(aten.argmax.default, _without_repeats(2, 50_000), 1)
    assert not _codes(aten.max.dim, _without_repeats(50_000), 0)


@pytest.mark.slow  # quick: test_more_elements_than_the_layer_puts_in_order
def test_most_elements_of_a_running_product() -> None:
    x = torch.linspace(0.999, 1.001, 4097)
    assert not _codes(aten.cumprod.default, x[:4096], 0)
    assert _codes(aten.cumprod.default, x, 0) == {"pairs"}
    assert not check_op(aten.cumsum.default, (torch.arange(4096),), {"dim": 0}, target="8.6").limits
    (limit,) = check_op(aten.cumsum.default, (torch.arange(4097),), {"dim": 0}, target="8.6").limits.values()
    assert limit.code == "pairs"
    assert "16,785,409 elements" in limit.why
    assert not _codes(aten.cumsum.default, torch.arange(4097), 0)


def test_running_product_of_as_many_dims_as_there_are() -> None:
    assert not _codes(aten.cumprod.default, torch.rand(2, 1, 1, 1, 1, 1, 3), 6)
    assert _codes(aten.cumprod.default, torch.rand(2, 1, 1, 1, 1, 1, 1, 3), 7) == {"rank"}


@pytest.mark.parametrize("op", [aten.sum.dim_IntList, aten.cumsum.default])
def test_sums_that_wrap_are_refused(op: Any) -> None:
    x = torch.tensor([100, 100, 100], dtype=torch.uint8)
    axis = [0] if op is aten.sum.dim_IntList else 0
    for dtype in (torch.int8, torch.uint8, None):
        assert _codes(op, x, axis, dtype=dtype) == {"narrow-integer"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("asked", [torch.float32, torch.float16, torch.int64, torch.int32, torch.bool, None], ids=str)
def test_dtype_of_a_sum(dtype: torch.dtype, asked: torch.dtype | None) -> None:
    x = torch.tensor([[0, 1, 2], [0, 0, 0]]).to(dtype)
    for op, axis in ((aten.sum.dim_IntList, [1]), (aten.prod.dim_int, 1)):
        assert not _codes(op, x, axis, dtype=asked)


# What lies between no dim and all dims is as the last.
# Quick: without the dims; samples keep them.
@thinned("dims", [[], [0], [-1, 0], [0, 1, 2]], ids=str, every=2)
@pytest.mark.parametrize("keepdim", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_lists_of_dims(dims: list[int], keepdim: bool) -> None:
    """An empty list means all dims, but none for any and all."""
    x = torch.randn(3, 5, 2)
    for op in (aten.sum.dim_IntList, aten.mean.dim, aten.amax.default):
        assert not _codes(op, x, dims, keepdim, dynamic=True)
    if dims:  # PyTorch itself fails where there are none
        assert not _codes(aten.logsumexp.default, x, dims, keepdim, dynamic=True)
    for op in (aten.any.dims, aten.all.dims):
        assert not _codes(op, x > 0, dims, keepdim, dynamic=True)
    assert not _codes(aten.var.correction, x, dims, correction=0, keepdim=keepdim, dynamic=True)
    assert not _codes(aten.linalg_vector_norm.default, x, 3, dims, keepdim, dynamic=True)


# Quick: sizes that change.
@pytest.mark.parametrize("correction", [None, 0, 1, 2, 7, 0.5])
@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.slow), True])
def test_corrections_of_a_variance(correction: float | None, dynamic: bool) -> None:
    """Seven elements less seven leave a division by 0; at other sizes they do not."""
    for x in (torch.randn(3, 7), torch.full((3, 7), 2.0)):
        assert not _codes(aten.var.correction, x, [1], correction=correction, dynamic=dynamic)
        assert not _codes(aten.std_mean.correction, x, [1], correction=correction, dynamic=dynamic)


# Quick: the ends and each third; samples of norms have other orders.
@thinned("order", [0, 0.5, 1, 2, 3, math.inf, -math.inf, -1], every=3)
def test_orders_of_a_norm(order: float) -> None:
    x = torch.tensor([[0.5, -2.0, 3.0], [1.0, 4.0, -0.25]])
    for dtype in FLOATS:
        assert not _codes(aten.linalg_vector_norm.default, x.to(dtype), order, [1], dynamic=True)


def test_infinite_and_missing_numbers() -> None:
    inf, nan = math.inf, math.nan
    x = torch.tensor([[-inf, -inf], [inf, 1.0], [-inf, 2.0], [inf, -inf]])
    assert not _codes(aten.logsumexp.default, x, [1])
    missing = torch.tensor([[nan, 0.0], [0.0, 0.0], [nan, 1.0]])
    for op in (aten.any.dim, aten.all.dim, aten.argmax.default):
        assert not _codes(op, missing, 1)
    assert not _codes(aten.count_nonzero.dim_IntList, missing, [1])


@pytest.mark.parametrize("op", [aten.any.dim, aten.all.dim])
def test_truth_of_nothing(op: Any) -> None:
    assert not _codes(op, torch.zeros(3, 0), 1)


@pytest.mark.parametrize("p", [None, 1, 3])
def test_norms_in_another_dtype(p: float | None) -> None:
    x = torch.randn(3, 5).half()
    assert not _codes(aten.norm.ScalarOpt_dtype, x, p, dtype=torch.float32)
    assert not _codes(aten.norm.ScalarOpt_dim_dtype, x, p, [1], True, dtype=torch.float32, dynamic=True)


FAMILIES = ("reduction", "argmax", "variance", "norm", "cumulative", "sorting", "median")
WITHOUT_SAMPLES = {"aten.norm.ScalarOpt_dtype", "aten.norm.ScalarOpt_dim_dtype"}


def test_every_converter_is_tested() -> None:
    own = {op for op, converter in converters().items() if converter.family in FAMILIES}
    assert {sampled.op for sampled in SAMPLED} | WITHOUT_SAMPLES == own
    assert len({sampled.op for sampled in SAMPLED}) == len(SAMPLED)
