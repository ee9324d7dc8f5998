"""Layers of real engines of TensorRT 8.6.0, as an H200 gave them, joined back to ops."""

from __future__ import annotations

from collections import Counter

import pytest
from inspected_engines import RECORDED, Recorded, recorded

from trtdiag.engine.built_layers import LayerInfo
from trtdiag.engine.tensorrt.fused_layers import joined
from trtdiag.engine.tensorrt.inspection import read_layers


def _joined(engine: Recorded) -> tuple[LayerInfo, ...]:
    return joined(read_layers(engine.text), engine.network, engine.times)


def _nodes(layer: LayerInfo) -> list[str]:
    return [origin.node for origin in layer.ops]


def _layer(name: str, beginning: str) -> LayerInfo:
    (engine,) = recorded(name)
    (found,) = [layer for layer in _joined(engine) if layer.name.startswith(beginning)]
    return found


@pytest.mark.parametrize("name", RECORDED)
def test_every_op_is_in_a_layer(name: str) -> None:
    for engine in recorded(name):
        layers = _joined(engine)
        told = Counter(node for layer in layers for node in _nodes(layer))
        assert set(told) == set(engine.computing)
        # An op stands in several layers only where TensorRT itself names it in each.
        several = [layer for layer in layers if any(told[node] > 1 for node in _nodes(layer))]
        assert all(layer.named for layer in several)


@pytest.mark.parametrize("name", RECORDED)
def test_what_has_no_op_moves_data(name: str) -> None:
    for engine in recorded(name):
        without = [layer for layer in _joined(engine) if not layer.ops]
        beginnings = ("Reformatting CopyNode for ", "[ShapeHostToDeviceCopy ")
        assert all(layer.name.startswith(beginnings) for layer in without)
        assert {layer.kind for layer in without} <= {"Reformat", "NoOp", "ShapeHostToDevice"}


@pytest.mark.parametrize("name", RECORDED)
def test_every_layer_is_timed_and_typed(name: str) -> None:
    for engine in recorded(name):
        layers = _joined(engine)
        assert all(layer.time_ms is not None for layer in layers)
        assert all(layer.dtypes and tensor.shape for layer in layers for tensor in layer.outputs if tensor.shape)
        total = sum(layer.time_ms or 0 for layer in layers)
        runs = [sum(time for _, time in run) for run in engine.times]
        assert 0.5 * min(runs) <= total <= max(runs)


def test_the_sizes_are_those_that_the_context_was_told() -> None:
    (engine,) = recorded("mlp-keep")
    assert {layer.dtypes for layer in joined(read_layers(engine.plain), engine.network)} == {()}
    first, *_ = _joined(engine)
    assert [(tensor.name, tensor.shape) for tensor in first.inputs] == [("input 0: x", (3, 4, 5))]


def test_what_was_folded_into_weights_is_found_by_the_data_flow() -> None:
    folded = _layer("resnet-fp16", "conv2d/Convolution + relu")
    assert _nodes(folded) == ["conv2d", "batch_norm_scaled", "batch_norm_shifted", "relu"]
    assert not folded.named
    told = _layer("resnet-fp16", "conv2d_2/")
    assert _nodes(told) == ["conv2d_2", "batch_norm_2_scaled", "batch_norm_2_shifted", "add", "relu_2"]
    assert told.named
    assert told.dtypes == ("float16",)
    assert told.tactic.startswith("sm80_xmma_fprop_implicit_gemm_f16f16")
    assert str(told.ops[-1]) == "aten.relu.default (relu_2) at layer_models.py:24"


def test_foreign_nodes_have_what_lies_between() -> None:
    whole = _layer("decoder-keep", "{ForeignNode[unsqueeze/Shuffle...matmul/MatrixMultiply]}")
    assert _nodes(whole)[:3] == ["embedding", "layer_norm", "linear"]  # before the end that it is named by
    middle = _layer("conv-keep", "{ForeignNode[builder/Constant + group_norm/Shuffle")
    assert _nodes(middle) == ["group_norm", "instance_norm", "add", "relu"]
    half = _layer("conv-fp16", "{ForeignNode[builder/Constant#3 + group_norm")
    assert _nodes(half) == [
        "conv2d_1_float32", "group_norm", "instance_norm", "instance_norm_float16", "add", "relu",
    ]  # fmt: skip
    beside = _layer("indices-keep", "{ForeignNode[gather/Gather...amax/Reduce]}")
    assert {"ge", "arange", "cumsum", "cat", "sum_2"} <= set(_nodes(beside))
    assert "topk" not in _nodes(beside)


def test_layers_around_a_product_belong_to_its_op() -> None:
    for beginning in ("reshape_before_linear/", "linear/", "reshape_after_linear/"):
        assert _nodes(_layer("mlp-keep", beginning)) == ["linear"]


@pytest.mark.parametrize("name", RECORDED)
def test_layers_were_written_under_names_that_lead_back(name: str) -> None:
    for engine in recorded(name):
        nodes = {placed.origin.node for placed in engine.network.layers}
        assert {written.split("/")[0] for written in engine.written} <= nodes
