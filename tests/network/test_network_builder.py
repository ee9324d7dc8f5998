"""A wrong network is refused at the layer that makes it wrong, with its op and line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from sample_networks import small_network

from tests.harness.rows import each
from trtdiag.errors import InternalError, ShapeOutOfRangeError, UserError
from trtdiag.graph.source import Frame
from trtdiag.network import INPUT, DType, NetworkBuilder, Origin, run
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.cast import Identity
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.convolution import Convolution
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.gather import Gather, GatherMode
from trtdiag.network.layers.matmul import MatrixMultiply
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.pooling import Pooling, PoolingType
from trtdiag.network.layers.reduce import Reduce, ReduceOperation, TopK, TopKOperation
from trtdiag.network.layers.resize import GridSample, InterpolationMode, Resize
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.network.layers.squeeze import Squeeze
from trtdiag.symbolic import Range, parse_condition, parse_expr

ORIGIN = Origin("aten.foo.default", "foo_1", Frame("model.py", 12))
RANGES = {"a": Range(2, 40), "b": Range(2, 40)}
SUM = ElementWise(ElementWiseOperation.SUM)

# What cannot be wired: the shapes of float32 inputs, the layer, a word of the reason.
WIRINGS = {
    "rank": (("2, a", "a"), lambda: SUM, "rank"),
    "sizes": (("2, a", "2, b"), lambda: SUM, "dim 1: a and b"),
    "no_broadcast_of_symbols": (("a", "3"), lambda: SUM, "dim 0"),
    "too_few_inputs": (("2",), lambda: SUM, "takes 2 to 2 inputs"),
    "axis": (("2, a",), lambda: SoftMax(2), "0..1"),
    "negative_axis": (("2, a",), lambda: SoftMax(-1), "0..1"),
    "repeated_axis": (("2, a",), lambda: Reduce(ReduceOperation.SUM, (1, 1)), "repeat"),
    "no_axis": (("2, a",), lambda: Reduce(ReduceOperation.SUM, ()), "no axis"),
    "concatenation": (("2, a", "3, b"), lambda: Concatenation(0), "dim 1"),
    "matmul": (("2, a", "b, 3"), MatrixMultiply, "summed over"),
    "reshape_count": (("2, a",), lambda: Shuffle(reshape=(3, -1)), "-1"),
    "reshape_two_rests": (("2, a",), lambda: Shuffle(reshape=(-1, -1)), "at most one"),
    "reshape_zero": (("2, a",), lambda: Shuffle(reshape=(2, -1, 0)), "no dim 2"),
    "permutation": (("2, a",), lambda: Shuffle(first=(0, 0)), "permutation"),
    "channels": (
        ("1, 3, a, b", "4, 2, 3, 3"),
        lambda: Convolution((1, 1), (0, 0), (0, 0), (1, 1)),
        "channels",
    ),
    "window_too_large": (
        ("1, 3, 2, b",),
        lambda: Pooling(PoolingType.MAX, (3, 3), (1, 1), (0, 0), (0, 0)),
        "does not fit",
    ),
    "padding_of_a_window": (
        ("1, 3, a, b",),
        lambda: Pooling(PoolingType.MAX, (2, 2), (1, 1), (2, 0), (0, 0)),
        "less than the window",
    ),
    "one_spatial_dim": (("1, 3, a",), lambda: Convolution((1,), (0,), (0,), (1,)), "2 or 3"),
    "squeeze": (("2, a",), lambda: Squeeze((1,)), "taken out"),
    "slice_outside": (("2, 5",), lambda: Slice((0, 3), (2, 3), (1, 1)), "outside"),
    "slice_length": (("2, 5",), lambda: Slice((0,), (2, 3), (1, 1)), "length"),
    "scale": (("2, a",), lambda: Resize(InterpolationMode.LINEAR, scales=(1.0, 0.1)), "multiple of 1/1024"),
    "resize_outer_dim": (("2, 2, a",), lambda: Resize(InterpolationMode.CUBIC, (3, 2, 4)), "cannot resize dim 0"),
    "too_large_k": (("2, 5",), lambda: TopK(TopKOperation.MAX, 6, 1), "6 of 5"),
    "groups": (("2, 5, a", "1, 5, 1", "1, 5, 1"), lambda: Normalization((2,), 0.1, 2), "divide"),
    "grid_sample_wrap": (("1, 1, 2, 2",), lambda: GridSample(sample=SampleMode.WRAP), "WRAP"),
    "gather_axis": (("2, 5",), lambda: Gather(axis=0, elementwise_dims=1), "elementwise"),
    "gather_element_batch": (("2, 5",), lambda: Gather(GatherMode.ELEMENT, 1, 1), "elementwise"),
    "alpha": (("2",), lambda: Activation(ActivationType.RELU, 0.1), "no alpha"),
    "clip": (("2",), lambda: Activation(ActivationType.CLIP, 2.0, 1.0), "alpha <= beta"),
}


@each("name", WIRINGS)
def test_wrong_wiring_names_layer_op_and_line(name: str) -> None:
    shapes, make, word = WIRINGS[name]
    builder = NetworkBuilder(RANGES)
    values = [
        builder.input(f"x{index}", DType.FLOAT32, [parse_expr(size) for size in shape.split(", ")])
        for index, shape in enumerate(shapes)
    ]
    with pytest.raises(InternalError) as caught, builder.at(ORIGIN):
        builder.add(make(), *values)
    assert caught.value.reference == "wrong-layer"
    assert "aten.foo.default (foo_1) at model.py:12" in caught.value.message
    assert word in caught.value.because


def _two() -> tuple[NetworkBuilder, NetworkBuilder]:
    return NetworkBuilder(RANGES), NetworkBuilder(RANGES)


def _foreign_value() -> None:
    one, other = _two()
    one.add(Identity(), other.input("x", DType.FLOAT32, [2]))


def _foreign_output() -> None:
    one, other = _two()
    one.output("y", other.input("x", DType.FLOAT32, [2]))


def _same_name() -> None:
    one, _ = _two()
    one.input("x", DType.FLOAT32, [2])
    one.input("x", DType.FLOAT32, [2])


def _same_output() -> None:
    one, _ = _two()
    x = one.input("x", DType.FLOAT32, [2])
    one.output("y", x)
    one.output("y", x)


def _float64() -> None:
    _two()[0].constant(torch.zeros(2, dtype=torch.float64))


def _symbol_without_source() -> None:
    one, _ = _two()
    one.output("y", one.input("x", DType.FLOAT32, [parse_expr("a*b")]))
    one.build()


@pytest.mark.parametrize(
    "write",
    [_foreign_value, _foreign_output, _same_name, _same_output, _float64, _symbol_without_source],
    ids=lambda write: write.__name__.strip("_"),
)
def test_wrong_network_is_refused(write: Callable[[], None]) -> None:
    with pytest.raises(InternalError) as caught:
        write()
    assert caught.value.reference == "wrong-layer"


def test_constants_of_equal_content_are_one() -> None:
    builder = NetworkBuilder()
    first, second = builder.constant(torch.ones(3)), builder.constant(torch.full((3,), 1.0))
    other = builder.constant(torch.ones(3).half())
    builder.output("y", builder.add_single(SUM, first, second))
    builder.output("z", other)
    network = builder.build()
    assert first == second
    assert [placed.layer.kind for placed in network.layers] == ["Constant", "Constant", "ElementWise"]
    assert len(network.weights) == 2


def test_layers_without_use_are_left_out() -> None:
    plain, more = small_network(), small_network(unused=True)
    assert len(plain.layers) == len(more.layers)
    assert plain.tensors == more.tensors


def test_layers_are_in_order_and_say_where_from() -> None:
    network = small_network()
    known = {port.tensor for port in network.inputs}
    for placed in network.layers:
        assert known.issuperset(placed.inputs)
        known.update(placed.outputs)
        assert "aten.conv2d.default (conv) at model.py:7" in network.describe(placed)
    assert known == set(range(len(network.tensors)))


def test_intermediate_values_are_those_of_the_run() -> None:
    network = small_network()
    x = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(1))
    values = {port.tensor: x for port in network.inputs}
    run(network, [x], lambda placed, made: values.update(zip(placed.outputs, made, strict=True)))
    assert set(values) == set(range(len(network.tensors)))
    for port, output in zip(network.outputs, run(network, [x]), strict=True):
        assert torch.equal(values[port.tensor], output)


def test_outputs_are_nobody_elses_memory() -> None:
    builder = NetworkBuilder()
    x, weight = builder.input("x", DType.FLOAT32, [2, 3]), torch.ones(4)
    builder.output("y", builder.add_single(Shuffle(first=(1, 0)), x))
    builder.output("z", builder.constant(weight))
    given = torch.zeros(2, 3)
    for output in run(builder.build(), [given]):
        output.add_(5)
    assert given.eq(0).all()
    assert weight.eq(1).all()


REFUSED = {
    "dims": ([(2, 3, 8)], ShapeOutOfRangeError),
    "static": ([(1, 3, 8, 8)], ShapeOutOfRangeError),
    "below": ([(2, 3, 3, 8)], ShapeOutOfRangeError),
    "above": ([(2, 3, 41, 8)], ShapeOutOfRangeError),
    "count": ([(2, 3, 8, 8)] * 2, UserError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_run_refuses_other_inputs(name: str) -> None:
    shapes, error = REFUSED[name]
    with pytest.raises(error):
        run(small_network(), [torch.zeros(shape) for shape in shapes])


def test_run_refuses_another_dtype() -> None:
    with pytest.raises(UserError, match="float16"):
        run(small_network(), [torch.zeros((2, 3, 8, 8), dtype=torch.float16)])


INDEX = DType.INT64
FAILING = {
    "index_outside": (Gather(axis=1), [5], "out of "),
    "negative_index": (Gather(axis=1), [-1], "negative"),
    "element_outside": (Gather(GatherMode.ELEMENT), [2], "out of bounds"),
    "start_outside": (Slice(INPUT, (1, 1), (1, 1)), [0, 5], "leaves dim 1"),
}


@pytest.mark.parametrize("name", FAILING)
def test_values_that_a_layer_cannot_take_are_named(name: str) -> None:
    layer, numbers, word = FAILING[name]
    builder = NetworkBuilder()
    x = builder.input("x", DType.FLOAT32, [2, 5])
    element = isinstance(layer, Gather) and layer.mode is GatherMode.ELEMENT
    indices = torch.tensor([numbers] if element else numbers)
    builder.output("y", builder.add_single(layer, x, builder.input("i", INDEX, list(indices.shape)), origin=ORIGIN))
    with pytest.raises(UserError) as caught:
        run(builder.build(), [torch.zeros(2, 5), indices])
    assert caught.value.reference == "layer-failed"
    assert "at model.py:12" in caught.value.message
    assert word in caught.value.because


def test_derived_sizes_are_bound_and_checked() -> None:
    builder = NetworkBuilder(RANGES, [parse_condition("a % 2 == 0")])
    x = builder.input("x", DType.FLOAT32, [parse_expr("2*a + 1")])
    y = builder.input("y", DType.FLOAT32, [parse_expr("a"), parse_expr("a//2")])
    builder.output("x", x)
    builder.output("y", y)
    network = builder.build()
    assert [out.shape for out in run(network, [torch.zeros(9), torch.zeros(4, 2)])] == [(9,), (4, 2)]
    for sizes in ((8, (4, 2)), (9, (3, 1)), (9, (4, 1)), (11, (5, 2)), (3, (1, 0))):
        with pytest.raises(ShapeOutOfRangeError):
            run(network, [torch.zeros(sizes[0]), torch.zeros(sizes[1])])


def test_sizes_equal_under_a_condition_are_one() -> None:
    """A skip connection: 2 * (h // 2) is h where the program says that h is even."""
    for conditions in ([], [parse_condition("a % 2 == 0")]):
        builder = NetworkBuilder(RANGES, conditions)
        x = builder.input("x", DType.FLOAT32, [parse_expr("a")])
        y = builder.input("y", DType.FLOAT32, [parse_expr("2*(a//2)")])
        if conditions:
            assert builder.add_single(SUM, x, y, origin=ORIGIN).shape == x.shape
        else:
            with pytest.raises(InternalError, match="does not fit"):
                builder.add(SUM, x, y, origin=ORIGIN)
