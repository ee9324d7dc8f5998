"""What targets lack of layers, and that neither a converter nor an emitter writes it."""

from __future__ import annotations

import pytest

from trtdiag.convert.refusal import Refused
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Layer, NetworkBuilder
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.attention import Attention
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.reduce import Cumulative, TopK, TopKOperation
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.network.layers.squeeze import Unsqueeze
from trtdiag.network.layers.unary import Unary, UnaryOperation
from trtdiag.network.missing_features import lacks
from trtdiag.targets import get_target

_FIRST = TopK(TopKOperation.MAX, 1, 1)
# Layer, dtype, the words for what 8.6 lacks of it.
LACKING: dict[str, tuple[Layer, DType, str]] = {
    "kind": (Cumulative(1), DType.FLOAT32, "layer Cumulative"),
    "activation": (Activation(ActivationType.GELU_ERF), DType.FLOAT32, "activation GELU_ERF"),
    "unary": (Unary(UnaryOperation.ISNAN), DType.FLOAT32, "unary operation ISNAN"),
    "integers": (_FIRST, DType.INT32, "TopK of int32"),
    "bools_around": (Slice((0, 0), (4, 6), (1, 1), SampleMode.WRAP), DType.BOOL, "Slice of bool with the mode WRAP"),
    "bools_filled": (Slice((0, 0), (4, 6), (1, 1), SampleMode.FILL), DType.BOOL, "Slice of bool with the mode FILL"),
}
HAS: dict[str, tuple[Layer, DType]] = {
    "floats": (_FIRST, DType.FLOAT16),
    "as_a_shuffle": (Unsqueeze((0,)), DType.FLOAT32),
    "activation": (Activation(ActivationType.RELU), DType.FLOAT32),
    "bools_inside": (Slice((0, 1), (2, 2), (1, 1)), DType.BOOL),
    "integers_around": (Slice((0, 0), (4, 6), (1, 1), SampleMode.WRAP), DType.INT32),
    "softmax_of_two_dims": (SoftMax(1), DType.FLOAT32),
    "integer_unary": (Unary(UnaryOperation.ABS), DType.INT32),
}


@pytest.mark.parametrize("name", LACKING)
def test_what_is_missing_is_not_written(name: str) -> None:
    layer, dtype, words = LACKING[name]
    old, new = (Writer(NetworkBuilder(), get_target(version)) for version in ("8.6", "11.4"))
    with pytest.raises(Refused) as caught:
        old.add_all(layer, old.builder.input("x", dtype, [2, 3]))
    assert caught.value.limit.code == "layer-missing"
    assert words in caught.value.limit.why
    assert new.add_all(layer, new.builder.input("x", dtype, [2, 3]))


@pytest.mark.parametrize("name", HAS)
def test_what_is_there_is_written(name: str) -> None:
    layer, dtype = HAS[name]
    for version in ("8.6", "10.16", "11.4"):
        write = Writer(NetworkBuilder(), get_target(version))
        assert write.add_all(layer, write.builder.input("x", dtype, [2, 3]))


def test_softmax_of_one_dim_is_missing() -> None:
    """The builders of TensorRT-RTX 1.4 and 1.7, which are those of 10.16 and 11.4, refuse it as 8.6 does."""
    vector = NetworkBuilder().input("x", DType.FLOAT32, [5]).tensor
    matrix = NetworkBuilder().input("x", DType.FLOAT32, [5, 1]).tensor
    for version in ("8.6", "10.16", "11.4"):
        assert lacks(get_target(version), SoftMax(0), [vector]) == "SoftMax of 1 dims"
        assert lacks(get_target(version), SoftMax(0), [matrix]) is None


def test_a_softmax_is_not_quantized_to_what_a_generation_lacks() -> None:
    target = get_target("rtx-1.7")
    assert lacks(target.on(("sm89",)), Attention(quantize_to=DType.FP8), []) is None
    assert "float8_e4m3fn" in (lacks(target.on(("sm80",)), Attention(quantize_to=DType.FP8), []) or "")


def test_a_dtype_that_is_missing_is_not_written() -> None:
    old, new = (Writer(NetworkBuilder(), get_target(version)) for version in ("8.6", "11.4"))
    with pytest.raises(Refused) as caught:
        old.cast(old.builder.input("x", DType.BOOL, [2, 3]), DType.INT64)
    assert caught.value.limit.code == "dtype-missing"
    assert new.cast(new.builder.input("x", DType.BOOL, [2, 3]), DType.INT64).dtype is DType.INT64


def test_groups_are_missing_where_the_layer_has_one_scale_a_group() -> None:
    builder = NetworkBuilder()
    x, scale = builder.input("x", DType.FLOAT32, [2, 6, 5]), builder.input("scale", DType.FLOAT32, [1, 6, 1])
    inputs = [x.tensor, scale.tensor, scale.tensor]
    words = "normalization of groups with a scale for each channel"
    found = {
        (version, groups): lacks(get_target(version), Normalization((2,), 1e-5, groups), inputs)
        for version in ("8.6", "10.16", "11.4")
        for groups in (1, 3)
    }
    assert {key: words for key in found if found[key]} == {("8.6", 3): words}
