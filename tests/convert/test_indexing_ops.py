"""Indexing, scattering and masks against PyTorch: torch's samples, the limits, and what samples leave out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from tests.convert import op_check
from tests.convert.op_check import OLD_THEN_NEW, Outcome, check_op
from tests.convert.sampled_ops import Sampled, run_samples
from tests.harness.rows import thinned
from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers import segment_reduction
from trtdiag.convert.layer_writers.indices import common_shape
from trtdiag.convert.refusal import Refused
from trtdiag.convert.registry import converters
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, NetworkBuilder
from trtdiag.symbolic import Range, symbol
from trtdiag.targets.versions import get_target

aten = torch.ops.aten
# Between a mask and a tensor of other dynamic sizes torch's own shape function fails.
_SAME_SHAPES = {"dynamic": False}

SAMPLED = [
    # One of the samples has an index of uint8, which is for images at the edge of an engine.
    Sampled("aten.gather.default", ("gather",), limits=("narrow-integer",)),
    Sampled("aten.take_along_dim.default", ("take_along_dim",)),
    Sampled("aten.take.default", ("take",)),
    Sampled("aten.index_select.default", ("index_select",)),
    Sampled("aten.embedding.default", ("nn.functional.embedding",), (torch.float32, torch.float16)),
    Sampled("aten.index.Tensor", ("__getitem__",)),
    Sampled("aten.scatter.src", ("scatter",)),
    Sampled("aten.scatter.value", ("scatter",)),
    Sampled("aten.scatter.reduce", ("scatter",)),
    Sampled("aten.scatter.value_reduce", ("scatter",)),
    Sampled("aten.scatter_add.default", ("scatter_add",)),
    Sampled("aten.scatter_reduce.two", ("scatter_reduce",)),
    Sampled("aten.index_put.default", ("index_put",), limits=("small-integers",)),
    Sampled("aten.index_copy.default", ("index_copy",)),
    Sampled("aten.index_add.default", ("index_add",)),
    Sampled("aten.index_reduce.default", ("index_reduce",), (torch.float32, torch.float16, torch.int64)),
    Sampled("aten.index_fill.int_Scalar", ("index_fill",)),
    Sampled("aten.index_fill.int_Tensor", ("index_fill",)),
    Sampled("aten.slice_scatter.default", ("slice_scatter",)),
    Sampled("aten.select_scatter.default", ("select_scatter",)),
    Sampled("aten.masked_scatter.default", ("masked_scatter",), **_SAME_SHAPES),
    # At other sizes the harness repeats elements, and the sequence is not sorted any more.
    Sampled("aten.searchsorted.Tensor", ("searchsorted",), (torch.float32, torch.float16, torch.int64), **_SAME_SHAPES),
    Sampled("aten.searchsorted.Scalar", ("searchsorted",), (torch.float32, torch.int64), **_SAME_SHAPES),
    Sampled("aten.bucketize.Tensor", ("bucketize",), (torch.float32, torch.float16, torch.int64), **_SAME_SHAPES),
]


@pytest.mark.parametrize("case", [case for sampled in SAMPLED for case in sampled.cases()])
def test_samples(case: tuple[Sampled, torch.dtype, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    run_samples(case, monkeypatch, most=4)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for sampled in SAMPLED for case in sampled.cases()])
def test_more_samples(case: tuple[Sampled, torch.dtype, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    run_samples(case, monkeypatch, most=6)


OLDEST = ("gather.default", "index.Tensor", "scatter_add.default", "index_put.default", "slice_scatter.default")


@pytest.mark.parametrize("name", OLDEST)
def test_target_without_int64(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (sampled,) = (one for one in SAMPLED if one.op == f"aten.{name}")
    for dynamic in (False, True):
        run_samples((sampled, torch.float32, dynamic), monkeypatch, target="8.6", most=4)


def _checked(op: Any, *args: Any, dynamic: bool = False, constants: bool = False, **kwargs: Any) -> Outcome:
    return check_op(op, args, kwargs, dynamic=dynamic, constants=constants)


def _codes(op: Any, *args: Any, **kwargs: Any) -> set[str]:
    return {limit.code for limit in _checked(op, *args, **kwargs).limits.values()}


def _kinds(outcome: Outcome) -> list[str]:
    assert outcome.converted is not None
    return [placed.layer.kind for placed in outcome.converted.network.layers]


ROWS, COLUMNS = torch.tensor([[0, -1, 2], [1, 1, -2]]), torch.tensor([3, -4, 0])
INDICES: dict[str, Sequence[torch.Tensor | None]] = {
    "first": [ROWS],
    "middle": [None, ROWS],
    "last": [None, None, None, COLUMNS],
    "no_dims": [torch.tensor(-1)],
    "no_dims_among_others": [torch.tensor(1), None, COLUMNS],
    "neighbours": [None, ROWS, COLUMNS],
    "neighbours_at_the_end": [None, None, ROWS, COLUMNS],
    "apart": [ROWS, None, COLUMNS],
    "apart_after_one": [None, ROWS, None, COLUMNS],
    "all": [ROWS, COLUMNS, ROWS, COLUMNS],
    "column_and_row": [torch.tensor([[0], [2]]), torch.tensor([[0, 1, -1]])],
    "int32": [None, COLUMNS.int(), ROWS],
    "nothing": [torch.zeros(0, dtype=torch.int64)],
}


# Indices as weights are quick in test_known_indices_take_one_layer.
# Quick: sizes that change.
@pytest.mark.parametrize("constants", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.slow), True])
@thinned("name", INDICES, every=2)
def test_indices(name: str, dynamic: bool, constants: bool) -> None:
    """Negative ones, in every place, also where the program brings them."""
    indices = list(INDICES[name])
    assert not _codes(aten.index.Tensor, torch.randn(4, 5, 6, 7), indices, dynamic=dynamic, constants=constants)


# Quick: sizes that change.
@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.slow), True])
@thinned("name", [name for name in INDICES if name != "nothing"], every=2)
def test_places(name: str, dynamic: bool) -> None:
    """One value: of several for one place PyTorch leaves open which stays."""
    x, indices = torch.randn(4, 5, 6, 7), list(INDICES[name])
    assert not _codes(aten.index_put.default, x, indices, torch.tensor(3.0), dynamic=dynamic, constants=True)


@pytest.mark.parametrize("name", INDICES)
def test_values_added_up_at_places(name: str) -> None:
    x, indices = torch.randn(4, 5, 6, 7), list(INDICES[name])
    for values in (torch.randn(aten.index.Tensor(x, indices).shape), torch.tensor(2.0)):
        assert not _codes(aten.index_put.default, x, indices, values, True)


def test_unsafe_names_mean_the_same() -> None:
    x, indices = torch.randn(4, 5, 6, 7), list(INDICES["apart"])
    assert not _codes(aten._unsafe_index.Tensor, x, indices)
    assert not _codes(aten._unsafe_index_put.default, x, indices, torch.tensor(3.0))


def test_known_indices_take_one_layer() -> None:
    """Nothing is added to what is seen to be positive: few elements by value, many by content."""
    table = torch.randn(50, 3)
    for count in (3, 1000):
        outcome = _checked(aten.index.Tensor, table, [torch.arange(count) % 50], constants=True, dynamic=True)
        assert _kinds(outcome) == ["Constant", "Gather"]
    outcome = _checked(aten.index.Tensor, table, [torch.tensor([3, -1])], constants=True, dynamic=True)
    assert "Select" in _kinds(outcome)


MASKS = {
    "all_dims": (torch.rand(3, 5, 2) > 0.5, 0),
    "first": (torch.tensor([True, False, True]), 0),
    "middle": (torch.tensor([True, False, True, True, False]), 1),
    "last_two": (torch.rand(5, 2) > 0.5, 1),
}


# Quick: sizes that change.
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.slow), True])
@thinned("name", MASKS, every=2)
def test_one_value_at_the_places_of_a_mask(name: str, dynamic: bool, accumulate: bool) -> None:
    mask, first = MASKS[name]
    indices = [*[None] * first, mask]
    x = torch.randn(3, 5, 2)
    after = x.shape[first + mask.dim() :]
    for values in (torch.tensor(7.0), torch.randn(1, *after), torch.randn(after)):
        assert not _codes(aten.index_put.default, x, indices, values, accumulate, dynamic=dynamic)


def test_many_values_at_the_places_of_a_mask_are_refused() -> None:
    x, mask = torch.randn(3, 5), torch.tensor([True, False, True])
    assert _codes(aten.index_put.default, x, [mask], torch.randn(2, 5)) == {"mask-with-values"}
    assert _codes(aten.index_put.default, x, [mask, torch.tensor([0, 1])], torch.tensor(1.0)) == {"mask-among-indices"}
    truths = torch.zeros(3, dtype=torch.bool)
    assert _codes(aten.index_put.default, truths, [mask], torch.tensor(True), True) == {"small-integers"}


# Quick: floats and integers, of the ends.
@thinned("reduce", ["sum", "prod", "mean", "amax", "amin"], every=9)
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.float16, marks=pytest.mark.slow), torch.int64], ids=str
)
def test_many_elements_into_one_place(
    reduce: str, include_self: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some places take several, some none; the index reaches over a part of the other dims."""
    monkeypatch.setattr(op_check, "GREATEST", 20)
    generator = torch.Generator().manual_seed(3)
    x, source = (torch.randint(-9, 9, shape, generator=generator).to(dtype) for shape in ((4, 5, 3), (7, 2, 3)))
    index = torch.randint(0, 3, (6, 2, 2), generator=generator)
    for dynamic in (False, True):
        assert not _codes(
            aten.scatter_reduce.two, x, 0, index, source, reduce, include_self=include_self, dynamic=dynamic
        )


def test_infinite_elements_stay_in_their_place() -> None:
    x, index = torch.zeros(4, 2), torch.tensor([0, 2, 2])
    source = torch.tensor([[float("inf"), 1.0], [float("nan"), 2.0], [3.0, float("-inf")]])
    assert not _codes(aten.index_add.default, x, 0, index, source)
    assert not _codes(aten.scatter_add.default, x, 0, index[:, None].expand(3, 2), source)


def test_most_pairs_of_places_and_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    index = torch.arange(4096) % 5
    assert not _codes(aten.index_add.default, torch.zeros(4096), 0, index, torch.ones(4096))
    assert not _codes(aten.scatter_add.default, torch.zeros(4096), 0, index, torch.ones(4096))
    with monkeypatch.context() as few:  # beyond, elements are sorted, up to as many as that
        few.setattr(segment_reduction, "MOST_SORTED", 4095)
        assert _codes(aten.index_add.default, torch.zeros(4097), 0, index, torch.ones(4096)) == {"pairs"}
        assert _codes(aten.scatter_add.default, torch.zeros(4097), 0, index, torch.ones(4096)) == {"pairs"}
        few.setattr(segment_reduction, "MOST_SORTED", 4096)
        assert not _codes(aten.index_add.default, torch.zeros(4097), 0, index, torch.ones(4096))
    boundaries = torch.arange(4096.0)
    assert not _codes(aten.bucketize.Tensor, torch.ones(4096), boundaries)
    assert _codes(aten.bucketize.Tensor, torch.ones(4097), boundaries) == {"pairs"}


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
def test_integers_of_eight_bits_are_refused_by_all_of_them_alike(dtype: torch.dtype) -> None:
    x, index, ones = torch.zeros(5, dtype=dtype), torch.tensor([0, 1]), torch.ones(2, dtype=dtype)
    calls = [
        (aten.scatter_add.default, 0, index, ones),
        (aten.index_add.default, 0, index, ones),
        (aten.scatter_reduce.two, 0, index, ones, "amax"),
        (aten.scatter.src, 0, index, ones),
        (aten.index.Tensor, [index]),
        (aten.gather.default, 0, index),
        (aten.slice_scatter.default, ones, 0, 1, 3),
    ]
    for op, *rest in calls:
        assert _codes(op, x, *rest) == {"narrow-integer"}


def test_bytes_as_an_index_are_a_mask() -> None:
    x, places = torch.randn(3, 5), torch.tensor([1, 0, 1], dtype=torch.uint8)
    assert _codes(aten.index_put.default, x, [places], torch.randn(1, 5)) == {"byte-mask"}


@pytest.mark.parametrize("alpha", [1, -2, 0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_factor_of_added_rows(alpha: int, dtype: torch.dtype) -> None:
    x, rows = torch.ones(4, 3).to(dtype), torch.arange(6).reshape(2, 3).to(dtype)
    assert not _codes(aten.index_add.default, x, 0, torch.tensor([3, 3]), rows, alpha=alpha)


SLICES = [(None, None, 1), (1, 4, 1), (-3, None, 1), (2, 9, 1), (-99, 2, 1), (0, 5, 2), (1, None, 2), (-4, -1, 3)]


@pytest.mark.parametrize(("start", "end", "step"), SLICES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_slices(start: int | None, end: int | None, step: int, axis: int) -> None:
    x = torch.zeros(5, 5, 5)
    part = x.movedim(axis, 0)[start:end:step].movedim(0, axis)
    source = torch.arange(1.0, part.numel() + 1).reshape(part.shape)
    assert not _codes(aten.slice_scatter.default, x, source, axis, start, end, step)


@pytest.mark.parametrize("classes", [3, 7])
@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_one_hot(classes: int, target: str) -> None:
    for index in (torch.tensor(2), torch.tensor([[0, 2], [1, 1]])):
        for dynamic in (False, True):
            assert not check_op(aten.one_hot.default, (index, classes), dynamic=dynamic, target=target).limits


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("right", [False, True])
def test_places_between_boundaries(dtype: torch.dtype, right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_check, "GREATEST", 40)
    boundaries = torch.tensor([-3, 0, 0, 2, 5]).to(dtype)
    x = torch.tensor([[-9, -3, 0], [1, 5, 6]]).to(dtype)
    for out_int32 in (False, True):
        assert not _codes(
            aten.bucketize.Tensor, x, boundaries, right=right, out_int32=out_int32, dynamic=True, constants=True
        )
    assert not _codes(
        aten.searchsorted.Tensor, torch.zeros(3, 5).to(dtype), x[:, :1].expand(2, 3).T, right=right, dynamic=True
    )
    nan = torch.tensor([float("nan"), 1.0])
    assert not _codes(aten.bucketize.Tensor, nan, torch.tensor([0.0, 2.0]), right=right)


def test_elements_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_check, "GREATEST", 9)
    mask = torch.tensor([[True, False, True], [False, False, True]])
    for target in ("8.6", "11.4"):
        for source in (torch.arange(10.0, 16.0).reshape(2, 3), torch.arange(3.0)):
            found = check_op(aten.masked_scatter.default, (torch.zeros(2, 3), mask, source), target=target)
            assert not found.limits
    none = torch.zeros(2, 3, dtype=torch.bool)
    assert not _codes(aten.masked_scatter.default, torch.zeros(2, 3), none, torch.ones(6))


def test_dims_that_may_differ_do_not_broadcast() -> None:
    write = Writer(NetworkBuilder({"a": Range(1, 9), "b": Range(1, 9)}), get_target("11.4"))
    a, b = symbol("a"), symbol("b")
    x = write.builder.input("x", DType.INT64, [a, 1])
    y = write.builder.input("y", DType.INT64, [a])
    z = write.builder.input("z", DType.INT64, [b])
    assert common_shape(write, [x.shape, y.shape]) == (a, a)
    with pytest.raises(Refused, match="broadcast-unknown"):
        common_shape(write, [y.shape, z.shape])


def test_number_among_boundaries() -> None:
    boundaries = torch.tensor([-1.0, 0.0, 0.0, 2.5])
    for value in (-2.0, 0.0, 2.5, 3):
        for right in (False, True):
            assert not _codes(aten.bucketize.Scalar, value, boundaries, right=right)
            assert not _codes(aten.searchsorted.Scalar, boundaries, value, right=right, out_int32=True)


def test_nothing_to_take_from() -> None:
    none = torch.zeros(2, 3, dtype=torch.bool)
    assert not _codes(aten.masked_scatter.default, torch.ones(2, 3), none, torch.zeros(0))
    assert not _codes(aten.index_put.default, torch.ones(4), [torch.zeros(0, dtype=torch.int64)], torch.tensor(2.0))
    assert not _codes(aten.scatter.value, torch.ones(4), 0, torch.zeros(0, dtype=torch.int64), 2.0)
    assert _codes(aten.index.Tensor, torch.ones(4, 3), [None, None]) == {"argument-kind"}


def test_classes_that_elements_decide_are_refused() -> None:
    write = Writer(NetworkBuilder(), get_target("11.4"))
    index = write.builder.input("index", DType.INT64, [5])
    arguments = {"self": index, "num_classes": -1}
    call = Call(aten.one_hot.default, arguments, (None,), write)
    with pytest.raises(Refused, match="data-dependent-shape"):
        converters()["aten.one_hot.default"].run(call)


FAMILIES = ("gather", "indexing", "scatter_reduce", "index_put", "masked_fill", "slice_scatter", "one_hot")
WITHOUT_SAMPLES = {
    "aten._unsafe_index.Tensor",
    "aten._unsafe_index_put.default",
    "aten.bucketize.Scalar",
    "aten.one_hot.default",
}


def test_every_converter_is_tested() -> None:
    own = {op for op, converter in converters().items() if converter.family in FAMILIES}
    tested = {sampled.op for sampled in SAMPLED}
    assert tested | WITHOUT_SAMPLES == own
    assert len(tested) == len(SAMPLED)
