"""What targets lack of layers, and that neither a converter nor an emitter writes it."""

from __future__ import annotations

import pytest

from trtdiag.convert.refused import Refused
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Layer, NetworkBuilder
from trtdiag.network.lacks import lacks
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.cumulative import Cumulative
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.squeeze import Unsqueeze
from trtdiag.network.layers.topk import TopK, TopKOperation
from trtdiag.network.layers.unary import Unary, UnaryOperation
from trtdiag.targets import get_target

_FIRST = TopK(TopKOperation.MAX, 1, 1)
# Layer, dtype, the words for what 8.6 lacks of it.
LACKING: dict[str, tuple[Layer, DType, str]] = {
    "kind": (Cumulative(1), DType.FLOAT32, "layer Cumulative"),
    "activation": (Activation(ActivationType.GELU_ERF), DType.FLOAT32, "activation GELU_ERF"),
    "unary": (Unary(UnaryOperation.ISNAN), DType.FLOAT32, "unary operation ISNAN"),
    "integers": (_FIRST, DType.INT32, "TopK of int32"),
}
HAS: dict[str, tuple[Layer, DType]] = {
    "floats": (_FIRST, DType.FLOAT16),
    "as_a_shuffle": (Unsqueeze((0,)), DType.FLOAT32),
    "activation": (Activation(ActivationType.RELU), DType.FLOAT32),
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
