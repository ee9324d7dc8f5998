"""Whether samples stay apart in each kind of layer: what is claimed holds in a run, and what mixes them is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from tests.harness.rows import each
from trtdiag.deployment.batch_axis import CoupledError, Rows
from trtdiag.deployment.batching import through
from trtdiag.network import INPUT, DType, Network, NetworkBuilder, Value, run
from trtdiag.network.layers import (
    Activation,
    Attention,
    Cast,
    Concatenation,
    Convolution,
    Cumulative,
    Deconvolution,
    ElementWise,
    Fill,
    Gather,
    GridSample,
    Loop,
    MatrixMultiply,
    Normalization,
    OneHot,
    Pooling,
    Quantize,
    Reduce,
    Resize,
    RotaryEmbedding,
    Scatter,
    Select,
    Shape,
    Shuffle,
    Slice,
    SoftMax,
    Squeeze,
    TopK,
    Unary,
    Unsqueeze,
)
from trtdiag.network.layers.activation import ActivationType
from trtdiag.network.layers.elementwise import ElementWiseOperation as E
from trtdiag.network.layers.gather import GatherMode
from trtdiag.network.layers.loop import Cell
from trtdiag.network.layers.matmul import MatrixOperation as M
from trtdiag.network.layers.pooling import PoolingType
from trtdiag.network.layers.reduce import ReduceOperation, TopKOperation
from trtdiag.network.layers.resize import InterpolationMode, ResizeCoordinateTransformation
from trtdiag.network.layers.scatter import ScatterMode
from trtdiag.network.layers.unary import UnaryOperation
from trtdiag.symbolic import Expr, Range, Sym

B, T = Sym("b"), Sym("t")
Build = Callable[[NetworkBuilder], "Value | tuple[Value, ...]"]
SIZES = {"b": 3, "t": 5}
"""Odd sizes: three samples of five steps."""


@dataclass(frozen=True)
class Row:
    """A network of samples, and why it mixes them; empty where it does not."""

    name: str
    build: Build
    mixes: str = ""

    def __str__(self) -> str:
        return self.name


def _x(n: NetworkBuilder, *shape: Expr | int, name: str = "x", dtype: DType = DType.FLOAT32) -> Value:
    return n.input(name, dtype, (B, *shape))


def _weight(n: NetworkBuilder, *shape: int, seed: int = 1) -> Value:
    return n.constant(torch.randn(shape, generator=torch.Generator().manual_seed(seed)))


def _sizes(n: NetworkBuilder, x: Value, *picked: int) -> Value:
    """Some sizes of a tensor as a vector."""
    (shape,) = n.add(Shape(), x)
    return n.add(Gather(), shape, n.constant(torch.tensor(picked)))[0]


def _permute(x: Value, *order: int) -> Value:
    return x.builder.add(Shuffle(first=order), x)[0]


def _time_first(n: NetworkBuilder) -> Value:
    """As nn.MultiheadAttention does it: steps before samples, both as one dim, and back."""
    x = _permute(_x(n, T, 4), 1, 0, 2)
    flat = n.add(Shuffle(reshape=(-1, 4)), x)[0]
    made = n.add(MatrixMultiply(), flat, _weight(n, 4, 6))[0]
    back = n.add(Concatenation(0), _sizes(n, x, 0, 1), n.constant(torch.tensor([6])))[0]
    return _permute(n.add(Shuffle(reshape=INPUT), made, back)[0], 1, 0, 2)


def _token(n: NetworkBuilder, stride: int) -> Value:
    """A learned token in front of each sequence, which is repeated for each sample."""
    x = _x(n, T, 4)
    size = n.add(Concatenation(0), _sizes(n, x, 0), n.constant(torch.tensor([1, 4])))[0]
    token = _weight(n, 1, 1, 4) if stride == 0 else _weight(n, 8, 1, 4)
    spread = n.add(Slice((0, 0, 0), INPUT, (stride, 1, 1)), token, size)[0]
    return n.add(Concatenation(1), spread, x)[0]


def _number(n: NetworkBuilder, axis: int) -> Value:
    """Divided by one of its sizes."""
    x = _x(n, T)
    size = n.add(Cast(DType.FLOAT32), n.add(Shuffle(reshape=(1, 1)), _sizes(n, x, axis))[0])[0]
    return n.add(ElementWise(E.DIV), x, size)[0]


def _counter(n: NetworkBuilder, beta: tuple[int, int]) -> Value:
    x = _x(n, T)
    made = n.add(Fill(INPUT, DType.FLOAT32, 1, beta), _sizes(n, x, 0, 1))[0]
    return n.add(ElementWise(E.SUM), x, made)[0]


def _attention(n: NetworkBuilder) -> Value:
    parts = [_x(n, 2, T, 4, name=name) for name in "qkv"]
    mask = n.constant(torch.ones(1, 1, 1, 1, dtype=torch.bool))
    return n.add(Attention(), *parts, mask)[0]


def _rotary(n: NetworkBuilder) -> Value:
    places = n.input("places", DType.INT64, (B, T))
    return n.add(RotaryEmbedding(), _x(n, 2, T, 4), _weight(n, 9, 2), _weight(n, 9, 2, seed=2), places)[0]


def _loop(n: NetworkBuilder, cell: Cell, *, reverse: bool = False) -> tuple[Value, ...]:
    """A recurrent layer over the steps of each sample, from states of its own; all results have samples in front."""
    gates, states = _permute(_x(n, T, 2 * cell.gates), 1, 0, 2), [n.input("hidden", DType.FLOAT32, (B, 2))]
    if cell is Cell.LSTM:
        states.append(n.input("carried", DType.FLOAT32, (B, 2)))
    weights = (_weight(n, 2 * cell.gates, 2), _weight(n, 1, 2 * cell.gates))
    sequence, *last = n.add(Loop(cell, reverse), gates, *weights, *states)
    return (_permute(sequence, 1, 0, 2), *last)


def _loop_of(n: NetworkBuilder, gates: Value, hidden: Value) -> tuple[Value, ...]:
    return n.add(Loop(Cell.TANH), gates, _weight(n, 2, 2), _weight(n, 1, 2), hidden)


def _both_reshaped(n: NetworkBuilder) -> Value:
    x = _x(n, 2, 3)
    return n.add(Shuffle(first=(1, 0, 2), reshape=(-1, 6)), x)[0]


HALF = ResizeCoordinateTransformation.HALF_PIXEL
APART = (
    Row("activation", lambda n: n.add(Activation(ActivationType.RELU), _x(n, T))[0]),
    Row("unary", lambda n: n.add(Unary(UnaryOperation.EXP), _x(n, T))[0]),
    Row("with a weight", lambda n: n.add(ElementWise(E.SUM), _x(n, 4), _weight(n, 1, 4))[0]),
    Row("two inputs", lambda n: n.add(ElementWise(E.PROD), _x(n, T), _x(n, T, name="y"))[0]),
    Row("chosen", lambda n: n.add(Select(), _x(n, T, dtype=DType.BOOL), _x(n, T, name="y"), _weight(n, 1, 1))[0]),
    Row("convolution", lambda n: n.add(_conv(), _x(n, 3, T, 5), _weight(n, 2, 3, 3, 3))[0]),
    Row("deconvolution", lambda n: n.add(_conv(Deconvolution), _x(n, 3, T, 5), _weight(n, 3, 2, 3, 3))[0]),
    Row("pooling", lambda n: n.add(_pool(), _x(n, 3, T, 4))[0]),
    Row("matrix of a sample", lambda n: n.add(MatrixMultiply(), _x(n, T, 4), _x(n, 4, 2, name="y"))[0]),
    Row("rows of a matrix", lambda n: n.add(MatrixMultiply(), _x(n, 4), _weight(n, 4, 2))[0]),
    Row(
        "a weight on the left",
        lambda n: _permute(n.add(MatrixMultiply(M.NONE, M.TRANSPOSE), _weight(n, 2, 4), _x(n, 4))[0], 1, 0),
    ),
    Row("vectors", lambda n: n.add(MatrixMultiply(M.NONE, M.VECTOR), _x(n, 4), _weight(n, 4))[0]),
    Row("reduction", lambda n: n.add(Reduce(ReduceOperation.AVG, (1, 2)), _x(n, T, 4))[0]),
    Row("softmax", lambda n: n.add(SoftMax(1), _x(n, T))[0]),
    Row("cumulative", lambda n: n.add(Cumulative(1), _x(n, T))[0]),
    Row("topk", lambda n: n.add(TopK(TopKOperation.MAX, 2, 1), _x(n, 4))),
    Row(
        "layer norm",
        lambda n: n.add(Normalization((2,), 1e-5), _x(n, T, 4), _weight(n, 1, 1, 4), _weight(n, 1, 1, 4))[0],
    ),
    Row(
        "group norm",
        lambda n: n.add(Normalization((2,), 1e-5, 2), _x(n, 4, T), _weight(n, 1, 4, 1), _weight(n, 1, 4, 1))[0],
    ),
    Row("time first", _time_first),
    Row("dims joined", lambda n: n.add(Shuffle(reshape=(-1, 4)), _x(n, 1, 4))[0]),
    Row("squeezed", lambda n: n.add(Squeeze((1,)), _x(n, 1, 4))[0]),
    Row("unsqueezed", lambda n: n.add(Unsqueeze((1,)), _x(n, 4))[0]),
    Row("a token", lambda n: _token(n, 0)),
    Row("a size that is not the batch's", lambda n: _number(n, 1)),
    Row("counting along steps", lambda n: _counter(n, (0, 2))),
    Row(
        "a part of each",
        lambda n: n.add(
            Slice((0, 1), INPUT, (1, 1)),
            _x(n, 4),
            n.add(Concatenation(0), _sizes(n, n.value(0), 0), n.constant(torch.tensor([2])))[0],
        )[0],
    ),
    Row("embedding", lambda n: n.add(Gather(), _weight(n, 9, 4), _x(n, T, dtype=DType.INT64))[0]),
    Row("columns", lambda n: n.add(Gather(axis=1), _x(n, 4), n.constant(torch.tensor([3, 0])))[0]),
    Row(
        "looked up in each",
        lambda n: n.add(Gather(axis=1, elementwise_dims=1), _x(n, 9, 2), _x(n, T, name="i", dtype=DType.INT64))[0],
    ),
    Row(
        "element by element",
        lambda n: n.add(Gather(GatherMode.ELEMENT, 1), _x(n, 9), _x(n, 9, name="i", dtype=DType.INT64))[0],
    ),
    Row(
        "positions in a weight",
        lambda n: n.add(Gather(GatherMode.ND), _weight(n, 9, 9, 2), _x(n, 2, dtype=DType.INT64))[0],
    ),
    Row("attention", _attention),
    Row("rotary", _rotary),
    Row(
        "one hot",
        lambda n: n.add(
            OneHot(2), _x(n, T, dtype=DType.INT64), n.constant(torch.tensor([0.0, 1.0])), n.constant(torch.tensor(9))
        )[0],
    ),
    Row("grid sample", lambda n: n.add(GridSample(), _x(n, 2, 5, 6), _x(n, 3, 4, 2, name="grid"))[0]),
    *(Row(f"loop of {cell.name}", lambda n, cell=cell: _loop(n, cell)) for cell in Cell),  # type: ignore[misc]
    Row("loop from the end", lambda n: _loop(n, Cell.LSTM, reverse=True)),
    Row("quantized", lambda n: n.add(Quantize(DType.INT8), _x(n, 4), n.constant(torch.tensor(0.1)))[0]),
)
"""What each sample decides alone."""

MIXED = (
    Row(
        "mean of samples",
        lambda n: n.add(Reduce(ReduceOperation.AVG, (0,), keep_dims=True), _x(n, T))[0],
        "goes over the samples",
    ),
    Row("softmax over samples", lambda n: n.add(SoftMax(0), _x(n, T))[0], "along the dim of the samples"),
    Row("best of samples", lambda n: n.add(TopK(TopKOperation.MAX, 1, 0), _x(n, T)), "along the dim of the samples"),
    Row(
        "norm over samples",
        lambda n: n.add(Normalization((0, 2), 1e-5), _x(n, 4, T), _weight(n, 1, 4, 1), _weight(n, 1, 4, 1))[0],
        "mean goes over",
    ),
    Row(
        "products of samples",
        lambda n: n.add(MatrixMultiply(M.NONE, M.TRANSPOSE), _x(n, T), n.value(0))[0],
        "pairs of samples",
    ),
    Row(
        "sum of samples",
        lambda n: n.add(MatrixMultiply(M.TRANSPOSE, M.NONE), _x(n, T), n.value(0))[0],
        "sums over the samples",
    ),
    Row(
        "turned around",
        lambda n: n.add(Slice(INPUT, INPUT, (-1, 1)), _x(n, 4), _last(n), _sizes(n, n.value(0), 0, 1))[0],
        "cuts among the samples",
    ),
    Row(
        "another one", lambda n: n.add(Gather(), _x(n, 4), n.constant(torch.tensor([0])))[0], "picks among the samples"
    ),
    Row("the batch's size", lambda n: _number(n, 0), "size of the batch"),
    Row("counting samples", lambda n: _counter(n, (1, 0)), "counts along the samples"),
    Row("a weight for each", lambda n: _token(n, 1), "cuts by the size"),
    Row("samples joined", lambda n: n.add(Concatenation(0), _x(n, 4), n.value(0))[0], "joins along"),
    Row("samples as columns", lambda n: _permute(_x(n, T), 1, 0), ""),
    Row("come apart", _both_reshaped, "come apart"),
    Row("a loop over samples", lambda n: _loop_of(n, _x(n, 3, 2), _weight(n, 3, 2))[0], "from one sample to the next"),
    Row(
        "one loop of joined samples",
        lambda n: _loop_of(n, _permute(n.add(Shuffle(reshape=(-1, 1, 2)), _x(n, 3, 2))[0], 0, 1, 2), _weight(n, 1, 2))[
            0
        ],
        "from one sample to the next",
    ),
    Row(
        "a state that is another sample's",
        lambda n: _loop_of(
            n, _permute(_x(n, T, 2), 1, 0, 2), n.add(Cumulative(0), n.input("h", DType.FLOAT32, (B, 2)))[0]
        )[0],
        "along the dim of the samples",
    ),
    Row(
        "unknown kind",
        lambda n: n.add(
            Scatter(ScatterMode.ELEMENT, 1),
            _x(n, 4),
            n.input("i", DType.INT64, (B, 4)),
            n.input("u", DType.FLOAT32, (B, 4)),
        )[0],
        "nothing is known of Scatter",
    ),
    Row(
        "a size tensor resized",
        lambda n: n.add(Resize(InterpolationMode.LINEAR, scales=(2.0, 1.0), coordinates=HALF), _x(n, 4))[0],
        "resizes the dim",
    ),
)
"""What mixes samples, or is not known not to."""


def _last(n: NetworkBuilder) -> Value:
    return n.add(ElementWise(E.SUB), _sizes(n, n.value(0), 0, 1), n.constant(torch.tensor([1, 4])))[0]


def _conv(kind: type[Convolution | Deconvolution] = Convolution) -> Convolution | Deconvolution:
    return kind(stride=(1, 1), pre_padding=(1, 1), post_padding=(1, 1), dilation=(1, 1), groups=1)


def _pool() -> Pooling:
    return Pooling(PoolingType.MAX, (2, 2), (1, 1), (0, 0), (0, 0))


def _network(row: Row) -> Network:
    n = NetworkBuilder({"b": Range(1, 8), "t": Range(3, 6)})
    made = row.build(n)
    for index, value in enumerate(made if isinstance(made, tuple) else (made,)):
        n.output(f"y{index}", value)
    return n.build()


def _inputs(network: Network) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    made = []
    for tensor in network.input_types:
        shape = [SIZES[size.name] if isinstance(size, Sym) else int(size.value) for size in tensor.shape]
        if tensor.dtype is DType.FLOAT32:
            made.append(torch.randn(shape, generator=generator))
        else:
            made.append(torch.randint(0, 9, shape, generator=generator).to(tensor.dtype.torch))
    return made


@each("row", APART)
def test_samples_that_are_proven_apart_are_apart(row: Row) -> None:
    network = _network(row)
    states = through(network, [Rows(0) for _ in network.inputs], "the engine")
    assert states == [Rows(0) for _ in network.outputs]
    inputs = _inputs(network)
    together = run(network, inputs)
    for sample in range(SIZES["b"]):
        alone = run(network, [tensor[sample : sample + 1] for tensor in inputs])
        for one, all_of_them in zip(alone, together, strict=True):
            # Sums of one sample may be taken in another order than those of three.
            torch.testing.assert_close(one.float(), all_of_them[sample : sample + 1].float(), atol=1e-5, rtol=1e-5)


@each("row", MIXED)
def test_what_mixes_samples_is_named(row: Row) -> None:
    network = _network(row)
    given = [Rows(0) for _ in network.inputs]
    if not row.mixes:  # they are apart, along another dim than the first
        assert through(network, given, "the engine") == [Rows(1)]
        return
    with pytest.raises(CoupledError, match=row.mixes):
        through(network, given, "the engine")
