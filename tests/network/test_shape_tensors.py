"""Sizes as network tensors: their values are known while the network is written, so shapes are exact."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from network_cases import ORIGIN

from tests.harness.rows import each
from trtdiag.errors import InternalError
from trtdiag.network import INPUT, DType, Network, NetworkBuilder, Value, from_bytes, run, to_bytes
from trtdiag.network.layers.cast import Cast
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.constant import Fill
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation, Select
from trtdiag.network.layers.gather import Gather
from trtdiag.network.layers.reduce import Reduce, ReduceOperation, TopK, TopKOperation
from trtdiag.network.layers.resize import InterpolationMode, Resize, ResizeCoordinateTransformation
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.squeeze import Shape, Squeeze, Unsqueeze
from trtdiag.network.layers.unary import Unary, UnaryOperation
from trtdiag.symbolic import Range, parse_condition, symbol, to_text

SIZES = [(1, 5, 4), (2, 7, 13), (3, 31, 29), (4, 30, 6)]
_E = ElementWiseOperation
_NOT = Unary(UnaryOperation.NOT)


class _Writer:
    """An image of dynamic sizes, and arithmetic on its sizes."""

    def __init__(self) -> None:
        ranges = {"b": Range(1, 4), "h": Range(5, 31), "w": Range(4, 29)}
        self.builder = NetworkBuilder(ranges)
        self.x = self.builder.input("x", DType.FLOAT32, [symbol("b"), 2, symbol("h"), symbol("w")])
        self.shape = self.add(Shape(), self.x)

    def add(self, layer, *inputs: Value) -> Value:
        return self.builder.add_single(layer, *inputs, origin=ORIGIN)

    def number(self, *numbers: int) -> Value:
        return self.builder.constant(torch.tensor(numbers, dtype=torch.int64), ORIGIN)

    def size(self, axis: int) -> Value:
        return self.add(Gather(), self.shape, self.number(axis))

    def of(self, op: ElementWiseOperation, left: Value, right: Value) -> Value:
        return self.add(ElementWise(op), left, right)

    def remainder(self, left: Value, right: Value) -> Value:
        """``left % right`` as networks write it."""
        return self.of(_E.SUB, left, self.of(_E.PROD, self.of(_E.FLOOR_DIV, left, right), right))

    def comparisons(self) -> tuple[Value, Value]:
        """Two conditions that hold for some sizes."""
        first = self.of(_E.GREATER, self.size(2), self.size(3))
        return first, self.of(_E.GREATER, self.size(2), self.number(7))

    def vector(self, *parts: Value) -> Value:
        return self.add(Concatenation(0), *parts)

    def network(self, *outputs: Value) -> Network:
        for index, value in enumerate(outputs):
            self.builder.output(f"y{index}", value)
        return self.builder.build()


def _texts(value: Value) -> list[str]:
    assert value.tensor.values is not None
    return [to_text(expr) for expr in value.tensor.values]


def _images():
    for b, h, w in SIZES:
        yield torch.arange(b * 2 * h * w, dtype=torch.float32).reshape(b, 2, h, w)


def test_reshape_by_a_shape_tensor_is_exact() -> None:
    write = _Writer()
    pixels = write.of(_E.PROD, write.size(2), write.size(3))
    y = write.add(
        Shuffle(reshape=INPUT, second=(0, 2, 1)), write.x, write.vector(write.size(0), write.number(-1), pixels)
    )
    assert [to_text(size) for size in y.shape] == ["b", "h*w", "2"]
    network = from_bytes(to_bytes(write.network(y)))
    for x in _images():
        torch.testing.assert_close(run(network, [x])[0], x.flatten(2).mT, rtol=0, atol=0)


def test_slice_by_shape_tensors_is_exact() -> None:
    write = _Writer()
    half = write.of(_E.FLOOR_DIV, write.size(2), write.number(2))
    rest = write.of(_E.SUB, write.size(2), half)
    zeros = write.number(0, 0)
    start = write.vector(zeros, half, write.number(0))
    y = write.add(
        Slice(INPUT, INPUT, (1, 1, 1, 1)),
        write.x,
        start,
        write.vector(write.size(0), write.number(2), rest, write.size(3)),
    )
    assert to_text(y.shape[2]) == "h - h // 2"
    network = write.network(y)
    for x in _images():
        torch.testing.assert_close(run(network, [x])[0], x[:, :, x.size(2) // 2 :], rtol=0, atol=0)


def test_padding_to_a_multiple() -> None:
    write = _Writer()
    up = write.of(_E.FLOOR_DIV, write.of(_E.SUM, write.size(3), write.number(7)), write.number(8))
    width = write.of(_E.PROD, up, write.number(8))
    size = write.vector(write.size(0), write.number(2), write.size(2), width)
    y = write.add(Slice((0, 0, 0, 0), INPUT, (1, 1, 1, 1), SampleMode.FILL), write.x, size)
    assert to_text(y.shape[3]) == "8*((w + 7) // 8)"
    network = write.network(y)
    for x in _images():
        expected = F.pad(x, (0, -x.size(3) % 8))
        torch.testing.assert_close(run(network, [x])[0], expected, rtol=0, atol=0)


def test_resize_and_fill_by_shape_tensors() -> None:
    write = _Writer()
    size = write.vector(
        write.size(0),
        write.number(2),
        write.of(_E.PROD, write.size(2), write.number(2)),
        write.of(_E.MIN, write.size(3), write.number(9)),
    )
    y = write.add(
        Resize(InterpolationMode.LINEAR, INPUT, coordinates=ResizeCoordinateTransformation.HALF_PIXEL), write.x, size
    )
    ramp = write.add(Fill(INPUT, DType.INT64, 3, (2,)), write.size(2))
    assert [to_text(part) for part in y.shape[2:]] == ["2*h", "min(9, w)"]
    network = write.network(y, ramp)
    for x in _images():
        actual, numbers = run(network, [x])
        expected = F.interpolate(x, (2 * x.size(2), min(9, x.size(3))), mode="bilinear")
        # Values up to 5,000 with weights in float32 on both sides.
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-2)
        assert numbers.tolist() == [3 + 2 * i for i in range(x.size(2))]


def test_top_k_of_a_size() -> None:
    write = _Writer()
    k = write.add(Squeeze((0,)), write.of(_E.FLOOR_DIV, write.size(3), write.number(2)))
    values, indices = write.builder.add(TopK(TopKOperation.MAX, INPUT, 3), write.x, k, origin=ORIGIN)
    assert to_text(values.shape[3]) == "w // 2"
    network = write.network(values, indices)
    for x in _images():
        best, places = run(network, [x])
        torch.testing.assert_close(best, x.flip(3)[..., : x.size(3) // 2], rtol=0, atol=0)
        assert places.dtype is torch.int32


VALUES = {
    "max": (lambda w: w.of(_E.MAX, w.size(2), w.size(3)), ["max(h, w)"]),
    "max_decided": (lambda w: w.of(_E.MAX, w.size(2), w.number(5)), ["h"]),
    "max_at_the_edge": (lambda w: w.of(_E.MAX, w.size(2), w.number(6)), ["max(6, h)"]),
    "min_decided": (lambda w: w.of(_E.MIN, w.size(3), w.number(29)), ["w"]),
    "min_at_the_edge": (lambda w: w.of(_E.MIN, w.size(3), w.number(28)), ["min(28, w)"]),
    "greater": (lambda w: w.of(_E.GREATER, w.size(2), w.size(3)), ["1 if h >= w + 1 else 0"]),
    "less_decided": (lambda w: w.of(_E.LESS, w.size(2), w.number(32)), ["1"]),
    "less_never": (lambda w: w.of(_E.LESS, w.size(2), w.number(5)), ["0"]),
    "less_at_the_edge": (lambda w: w.of(_E.LESS, w.size(2), w.number(6)), None),
    "equal_never": (lambda w: w.of(_E.EQUAL, w.size(2), w.number(32)), ["0"]),
    "equal_always": (lambda w: w.of(_E.EQUAL, w.size(2), w.size(2)), ["1"]),
    "not": (lambda w: w.add(_NOT, w.of(_E.GREATER, w.size(2), w.size(3))), ["1 if h <= w else 0"]),
    "and": (lambda w: w.of(_E.AND, *w.comparisons()), ["1 if h >= 8 and h >= w + 1 else 0"]),
    "or": (lambda w: w.of(_E.OR, *w.comparisons()), ["1 if h >= 8 or h >= w + 1 else 0"]),
    "xor": (lambda w: w.of(_E.XOR, *w.comparisons()), None),
    "as_number": (lambda w: w.add(Cast(DType.INT64), w.comparisons()[0]), ["1 if h >= w + 1 else 0"]),
    "as_bool": (
        lambda w: w.add(Cast(DType.BOOL), w.add(Cast(DType.INT32), w.comparisons()[0])),
        ["1 if h >= w + 1 else 0"],
    ),
    "size_as_bool": (lambda w: w.add(Cast(DType.BOOL), w.of(_E.SUB, w.size(2), w.number(7))), None),
    "sign": (lambda w: w.add(Unary(UnaryOperation.SIGN), w.of(_E.SUB, w.size(2), w.size(3))), None),
    "remainder_with_factors": (
        lambda w: w.remainder(w.of(_E.PROD, w.size(2), w.number(6)), w.number(4)),
        ["2*(h % 2)"],
    ),
    "remainder_with_whole_part": (
        lambda w: w.remainder(w.of(_E.SUM, w.of(_E.PROD, w.size(2), w.number(8)), w.size(3)), w.number(8)),
        ["w % 8"],
    ),
    "remainder_negative_divisor": (lambda w: w.remainder(w.size(2), w.number(-4)), ["-(-h % 4)"]),
    "remainder_of_a_size": (lambda w: w.remainder(w.size(2), w.size(3)), ["h % w"]),
    "remainder_of_a_sum": (lambda w: w.remainder(w.size(2), w.of(_E.SUM, w.size(3), w.number(1))), ["h % (w + 1)"]),
    "remainder_of_a_product": (
        lambda w: w.remainder(w.size(2), w.of(_E.PROD, w.size(3), w.number(2))),
        ["h % (2*w)"],
    ),
    "ramp": (lambda w: w.add(Fill((2, 2), DType.INT64, 3, (2, -1))), ["3", "2", "5", "4"]),
    "ramp_of_sizes": (
        lambda w: w.add(Fill((2,), DType.INT64, INPUT, INPUT), w.add(Squeeze((0,)), w.size(2)), w.size(3)),
        ["h", "h + w"],
    ),
    "trunc": (lambda w: w.of(_E.DIV, w.of(_E.SUB, w.size(2), w.number(9)), w.number(4)), None),
    "div": (lambda w: w.of(_E.DIV, w.size(2), w.number(4)), ["h // 4"]),
    "remainder": (
        lambda w: w.remainder(w.size(2), w.number(4)),
        ["h % 4"],
    ),
    "count": (lambda w: w.add(Reduce(ReduceOperation.PROD, (0,), True), w.shape), ["2*b*h*w"]),
    "scalar": (lambda w: w.of(_E.SUM, *[w.add(Reduce(ReduceOperation.MAX, (0,)), w.size(3))] * 2), ["2*w"]),
    "sum": (lambda w: w.add(Reduce(ReduceOperation.SUM, (0,), True), w.shape), ["b + h + w + 2"]),
    "negative": (lambda w: w.of(_E.SUB, w.number(0), w.size(3)), ["-w"]),
    "absolute": (
        lambda w: w.add(Unary(UnaryOperation.ABS), w.of(_E.SUB, w.size(2), w.size(3))),
        None,
    ),
    "cast": (lambda w: w.add(Cast(DType.INT32), w.size(3)), ["w"]),
    "reversed": (lambda w: w.add(Slice((3,), (4,), (-1,)), w.shape), ["w", "h", "2", "b"]),
    "reshaped": (lambda w: w.add(Shuffle(reshape=(2, 2), second=(1, 0)), w.shape), ["b", "h", "2", "w"]),
    "column": (lambda w: w.add(Shuffle(reshape=(4, 1)), w.shape), ["b", "2", "h", "w"]),
    "two_dims_kept": (
        lambda w: w.add(Shuffle(reshape=(4,)), w.add(Shuffle(), w.add(Shuffle(reshape=(2, 2)), w.shape))),
        ["b", "2", "h", "w"],
    ),
    "unsqueezed": (lambda w: w.add(Unsqueeze((0,)), w.shape), ["b", "2", "h", "w"]),
    "selected": (
        lambda w: w.add(Select(), w.of(_E.GREATER, w.size(2), w.number(16)), w.size(2), w.size(3)),
        ["h if h >= 17 else w"],
    ),
}


@each("name", VALUES)
def test_values_are_those_of_a_run(name: str) -> None:
    """``run`` compares the elements with the expressions; where the text is plain it is stated too."""
    write = _Writer()
    make, expected = VALUES[name]
    value = make(write)
    if expected is None:
        assert value.tensor.values is not None
    else:
        assert _texts(value) == expected
    network = write.network(value)
    assert network.output_types[0].values == value.tensor.values
    for x in _images():
        run(network, [x])


def test_size_that_depends_on_elements_is_refused() -> None:
    builder = NetworkBuilder()
    x = builder.input("x", DType.FLOAT32, [6])
    counts = builder.input("n", DType.INT64, [2])
    with pytest.raises(InternalError, match="does not fit") as caught:
        builder.add(Shuffle(reshape=INPUT), x, counts, origin=ORIGIN)
    assert "does not follow from the sizes" in caught.value.because


def test_division_by_what_may_be_zero_has_no_value() -> None:
    builder = NetworkBuilder({"n": Range(0, 9)})
    sizes = builder.add_single(Shape(), builder.input("x", DType.FLOAT32, [symbol("n")]), origin=ORIGIN)
    ten = builder.constant(torch.tensor([10]), ORIGIN)
    assert builder.add_single(ElementWise(_E.DIV), ten, sizes, origin=ORIGIN).tensor.values is None


def test_reshape_rests_on_a_condition() -> None:
    """Windows of 7: whole only where the program's guard says so."""
    for conditions in ([], [parse_condition("h % 7 == 0")]):
        builder = NetworkBuilder({"b": Range(1, 8), "h": Range(7, 70)}, conditions)
        x = builder.input("x", DType.FLOAT32, [symbol("b"), symbol("h"), 3])
        if conditions:
            y = builder.add_single(Shuffle(reshape=(0, -1, 7, 3)), x, origin=ORIGIN)
            assert [to_text(size) for size in y.shape] == ["b", "h // 7", "7", "3"]
        else:
            with pytest.raises(InternalError, match="does not fit"):
                builder.add(Shuffle(reshape=(0, -1, 7, 3)), x, origin=ORIGIN)
