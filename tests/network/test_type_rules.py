"""Which dtypes each kind takes: every dtype offered, the accepted ones run, the others refused by name."""

from __future__ import annotations

import pytest
import torch
from network_cases import ORIGIN

from tests.harness.rows import each
from trtdiag.errors import InternalError
from trtdiag.network import DType, Layer, LayerError, NetworkBuilder, run
from trtdiag.network.dtype import QUANTIZED
from trtdiag.network.layers import KINDS
from trtdiag.network.layers.activation import Activation, ActivationType, ParametricReLU
from trtdiag.network.layers.attention import Attention, KVCacheUpdate, RotaryEmbedding
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.constant import Fill
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation, Select
from trtdiag.network.layers.gather import Gather, GatherMode, OneHot
from trtdiag.network.layers.loop import Cell, Loop
from trtdiag.network.layers.matmul import MatrixMultiply
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.pooling import Pooling, PoolingType
from trtdiag.network.layers.quantize import Dequantize, DynamicQuantize, Quantize
from trtdiag.network.layers.reduce import Cumulative, Reduce, ReduceOperation, TopK, TopKOperation
from trtdiag.network.layers.resize import GridSample, InterpolationMode, Resize
from trtdiag.network.layers.scatter import Scatter, ScatterMode
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import Slice
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.network.layers.squeeze import Shape, Squeeze, Unsqueeze
from trtdiag.network.layers.unary import Unary, UnaryOperation

FLOAT = {DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16}
INDEX = {DType.INT32, DType.INT64}
BOOL = {DType.BOOL}
ANY = set(DType) - QUANTIZED
COMPUTED = ANY - {DType.UINT8}
T = None  # the dtype that is offered
_IMAGE, _KERNEL, _VECTOR = ((1, 2, 5, 5), T), ((2, 2, 3, 3), T), ((3,), T)
_WINDOW = ((1, 1), (0, 0), (0, 0), (1, 1))
_E, _U = ElementWiseOperation, UnaryOperation

Spec = tuple[tuple[int, ...], DType | None]
# name -> layer, shape and dtype of each input, what may be offered.
RULES: dict[str, tuple[Layer, tuple[Spec, ...], set[DType]]] = {
    "activation": (Activation(ActivationType.RELU), (_VECTOR,), FLOAT),
    "prelu": (ParametricReLU(), (_VECTOR, _VECTOR), FLOAT),
    "loop": (Loop(Cell.TANH), (((3, 1, 2), T), ((2, 2), T), ((1, 2), T), ((1, 2), T)), FLOAT),
    "attention": (Attention(), (((1, 1, 3, 2), T),) * 3, FLOAT),
    "attention_mask": (
        Attention(),
        (*(((1, 1, 3, 2), DType.FLOAT16),) * 3, ((1, 1, 3, 3), T)),
        {DType.FLOAT16, DType.BOOL},
    ),
    "attention_quantized": (
        Attention(quantize_to=DType.FP8),
        (*(((1, 1, 3, 2), DType.FLOAT16),) * 3, ((), T)),
        {DType.FLOAT16, DType.FLOAT32},
    ),
    "cast": (Cast(DType.INT32), (_VECTOR,), ANY),
    "identity": (Identity(), (_VECTOR,), ANY),
    "concatenation": (Concatenation(0), (_VECTOR, _VECTOR), COMPUTED),
    "convolution": (Convolution(*_WINDOW), (_IMAGE, _KERNEL, ((2,), T)), FLOAT),
    "deconvolution": (Deconvolution(*_WINDOW), (_IMAGE, _KERNEL), FLOAT),
    "cumulative": (Cumulative(0), (_VECTOR,), FLOAT | INDEX),
    **{op.name: (ElementWise(op), (_VECTOR, _VECTOR), FLOAT | INDEX) for op in (_E.SUM, _E.LESS, _E.EQUAL)},
    "POW": (ElementWise(_E.POW), (_VECTOR, _VECTOR), FLOAT),
    "AND": (ElementWise(_E.AND), (_VECTOR, _VECTOR), BOOL),
    "select": (Select(), (((3,), DType.BOOL), _VECTOR, _VECTOR), COMPUTED),
    "select_condition": (Select(), (_VECTOR, ((3,), DType.INT32), ((3,), DType.INT32)), BOOL),
    "gather": (Gather(), (_VECTOR, ((2,), DType.INT32)), ANY),
    "gather_indices": (Gather(GatherMode.ELEMENT), (((4,), DType.BOOL), _VECTOR), INDEX),
    "grid_sample": (GridSample(), (_IMAGE, ((1, 3, 3, 2), T)), FLOAT),
    "kv_cache_update": (KVCacheUpdate(), (((2, 1, 3, 2), T), ((2, 1, 1, 2), T), ((2,), DType.INT32)), FLOAT),
    "kv_cache_indices": (
        KVCacheUpdate(),
        (((2, 1, 3, 2), DType.FLOAT16), ((2, 1, 2, 2), DType.FLOAT16), ((2,), T)),
        {DType.INT32},
    ),
    "matmul": (MatrixMultiply(), (((2, 3), T), ((3, 2), T)), FLOAT),
    "non_zero": (NonZero("n"), (_VECTOR,), BOOL),
    "normalization": (Normalization((0,), 0.1), (_VECTOR, _VECTOR, _VECTOR), FLOAT),
    "one_hot": (OneHot(0), (_VECTOR, ((2,), DType.FLOAT32), ((), DType.INT64)), INDEX),
    "one_hot_values": (OneHot(0), (((3,), DType.INT64), ((2,), T), ((), DType.INT64)), COMPUTED),
    "pooling": (Pooling(PoolingType.MAX, (2, 2), (1, 1), (0, 0), (0, 0)), (_IMAGE,), FLOAT),
    "quantize": (Quantize(DType.FP8), (_VECTOR, ((), T)), FLOAT),
    "dequantize": (
        Dequantize(DType.FLOAT16),
        (_VECTOR, ((3,), DType.FLOAT16)),
        {DType.INT8, DType.FP8, DType.INT4, DType.FP4},
    ),
    "dequantize_scale": (
        Dequantize(DType.FLOAT16),
        (((4, 4), DType.FP8), ((4, 2), T)),
        {DType.FLOAT16, DType.E8M0},
    ),
    "dynamic_quantize": (DynamicQuantize(DType.FP8, 1, 32), (((2, 32), T),), FLOAT),
    "reduce": (Reduce(ReduceOperation.SUM, (0,)), (_VECTOR,), FLOAT | INDEX),
    "reduce_AVG": (Reduce(ReduceOperation.AVG, (0,)), (_VECTOR,), FLOAT),
    "resize": (Resize(InterpolationMode.LINEAR, (7,)), (_VECTOR,), FLOAT),
    "rotary": (RotaryEmbedding(), (((2, 1, 3, 4), T), ((2, 3, 2), T), ((2, 3, 2), T)), FLOAT),
    "rotary_positions": (
        RotaryEmbedding(),
        (((1, 1, 3, 4), DType.FLOAT16), *(((2, 2), DType.FLOAT16),) * 2, ((1, 3), T)),
        INDEX,
    ),
    "scatter": (Scatter(ScatterMode.ELEMENT), (_VECTOR, ((1,), DType.INT64), ((1,), T)), COMPUTED),
    "scatter_indices": (Scatter(ScatterMode.ND), (((3,), DType.BOOL), ((1, 1), T), ((1,), DType.BOOL)), INDEX),
    "shuffle": (Shuffle(reshape=(3, 1)), (_VECTOR,), ANY),
    "slice": (Slice((1,), (2,), (1,)), (_VECTOR,), ANY),
    "softmax": (SoftMax(0), (_VECTOR,), FLOAT),
    "squeeze": (Squeeze((0,)), (((1, 3), T),), ANY),
    "unsqueeze": (Unsqueeze((0,)), (_VECTOR,), ANY),
    "shape": (Shape(), (_VECTOR,), ANY),
    "topk": (TopK(TopKOperation.MAX, 2, 0), (_VECTOR,), FLOAT | INDEX),
    "SIN": (Unary(_U.SIN), (_VECTOR,), FLOAT),
    "ISNAN": (Unary(_U.ISNAN), (_VECTOR,), FLOAT),
    "NEG": (Unary(_U.NEG), (_VECTOR,), FLOAT),
    "SIGN": (Unary(_U.SIGN), (_VECTOR,), FLOAT | INDEX),
    "NOT": (Unary(_U.NOT), (_VECTOR,), BOOL),
}


def _result(name: str, offered: tuple[DType, ...]) -> tuple[torch.Tensor, ...]:
    layer, specs, _ = RULES[name]
    builder = NetworkBuilder()
    dtypes = iter(offered * len(specs))
    kinds = [fixed or next(dtypes) for _, fixed in specs]
    values = {
        index: builder.input(f"x{index}", kind, shape)
        for index, ((shape, _), kind) in enumerate(zip(specs, kinds, strict=True))
        if shape
    }
    for index, (shape, _) in enumerate(specs):
        if not shape:
            values[index] = builder.constant(torch.tensor(4, dtype=kinds[index].torch), ORIGIN, kinds[index])
    for index, value in enumerate(builder.add(layer, *(values[i] for i in range(len(specs))), origin=ORIGIN)):
        builder.output(f"y{index}", value)
    inputs = [torch.ones(shape, dtype=kind.torch) for (shape, _), kind in zip(specs, kinds, strict=True) if shape]
    return run(builder.build(), inputs)


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
@each("name", RULES)
def test_dtype_is_taken_or_refused(name: str, dtype: DType) -> None:
    if dtype in RULES[name][2]:
        assert _result(name, (dtype,))
        return
    with pytest.raises(InternalError) as caught:
        _result(name, (dtype,))
    assert caught.value.reference == "wrong-layer"
    assert dtype.value in caught.value.because


MIXED = [name for name, (_, specs, _) in RULES.items() if [fixed for _, fixed in specs].count(T) > 1]


@each("name", MIXED)
def test_nothing_is_promoted(name: str) -> None:
    taken = sorted(RULES[name][2], key=lambda dtype: dtype.value)
    first = taken[0]
    second = taken[1] if len(taken) > 1 else DType.INT8
    with pytest.raises(InternalError) as caught:
        _result(name, (first, second))
    assert second.value in caught.value.because


def test_every_kind_with_inputs_has_a_rule() -> None:
    assert {layer.kind for layer, _, _ in RULES.values()} == set(KINDS) - {"Constant", "Fill"}


def test_fill_gives_three_dtypes() -> None:
    for dtype in DType:
        if dtype in {DType.FLOAT32, *INDEX}:
            assert Fill((2,), dtype, 1, (2,)).dtype is dtype
        else:
            with pytest.raises(LayerError, match=dtype.value):
                Fill((2,), dtype, 1, (2,))
