"""Every emitter against the API surface of every version, on every layer kind."""

from __future__ import annotations

import re

import pytest
import torch
from layer_samples import CASES, case_for, in_half, lacks
from network_cases import ORIGIN
from standin import ContractError, TensorRT
from written import write

from tests.harness.rows import each, thinned
from trtdiag.engine.tensorrt.emit import EMITTERS
from trtdiag.errors import EngineBuildError
from trtdiag.network import DType, NetworkBuilder
from trtdiag.network.dtype import QUANTIZED
from trtdiag.network.layers import KINDS
from trtdiag.network.layers.attention import KVCacheUpdate
from trtdiag.network.layers.cast import Identity
from trtdiag.symbolic import Num
from trtdiag.targets import RTX_TARGETS, TARGETS

VERSIONS = [target.version for target in (*TARGETS, *RTX_TARGETS)]


# Quick: the oldest and the newest; that every kind has an emitter is asked of all.
@thinned("version", VERSIONS, every=9)
@each("name", CASES)
def test_a_layer_is_written_with_names_that_the_version_has(name: str, version: str) -> None:
    network = case_for(name, version).network()
    if lacks(name, version):
        with pytest.raises(EngineBuildError) as caught:
            write(network, version)
        quantized = version == "8.6" and any(tensor.dtype in QUANTIZED for tensor in network.tensors)
        assert caught.value.reference == ("dtype-missing" if quantized else "layer-missing")
        assert quantized or "aten.test.default" in caught.value.message
        return
    trt, emission = write(network, version)
    (definition,) = trt.of("INetworkDefinition")
    layers = [one for one in trt.made if "name" in one.seen and type(one).__name__ != "ITensor"]
    names = [layer.seen["name"] for layer in layers]
    assert len(set(names)) == len(names) == len(emission.layers)
    assert {name.split("/")[0] for name in names} <= {"node"} | {port.name for port in network.outputs}
    assert all(re.fullmatch(r"\[\S+ \(.+\)( at .+)?\]", layer.seen["metadata"]) for layer in layers)
    outputs = [output for layer in layers for output in layer.__dict__["outputs"].values()]
    assert len({output.seen["name"] for output in outputs}) == len(outputs)
    marked = [args[0] for called, args, _ in definition.calls if called == "mark_output"]
    added = [args for called, args, _ in definition.calls if called == "add_input"]
    assert len(marked) == len(set(map(id, marked))) == len(network.outputs)
    sizes = [tuple(size.value if isinstance(size, Num) else -1 for size in t.shape) for t in network.input_types]
    assert [tuple(args[2]) for args in added] == sizes
    assert [args[1] for args in added] == [emission.dialect.dtype(tensor.dtype) for tensor in network.input_types]


# Their types follow from what they are given, or they say it themselves.
UNPINNED = {"IConstantLayer", "ICastLayer", "IFillLayer", "IShapeLayer"}


@each("name", CASES)
def test_float16_is_pinned_on_the_weakly_typed_version(name: str) -> None:
    half = in_half(case_for(name, "8.6"))
    if half is None or lacks(name, "8.6"):
        return  # nothing of it is float16, or the test above has seen it refused
    network = half.network()
    trt, emission = write(network, "8.6")
    for layer in trt.made:
        if not type(layer).__name__.endswith("Layer") or type(layer).__name__ in UNPINNED:
            continue
        typed = {args[0]: args[1] for called, args, _ in layer.calls if called == "set_output_type"}
        placed = emission.layers[layer.seen["name"]]
        if placed.layer.kind in ("Quantize", "Dequantize"):  # int8 has no types to choose from
            assert "precision" not in layer.seen
            continue
        if placed.layer.kind == "Loop" and layer.by.split(".")[0] == "ILoop":
            assert "precision" not in layer.seen  # the ends of a loop compute nothing
            continue
        if placed.layer.kind == "Loop" and not typed:
            assert type(layer).__name__ in ("ISliceLayer", "IShuffleLayer")  # of the number of steps
            continue
        if placed.layer.kind == "Loop":  # layers of one step, each with one output
            assert layer.seen["precision"] is trt.DataType.HALF
            assert typed == {0: trt.DataType.HALF}
            continue
        if placed.layer.kind in ("Squeeze", "Unsqueeze") and type(layer).__name__ != "IShuffleLayer":
            continue  # integers: the sizes that it is reshaped to
        floats = {index for index, number in enumerate(placed.outputs) if network.tensors[number].dtype.is_float}
        reads = [network.tensors[number].dtype for number in (*placed.outputs, *placed.inputs)]
        if any(dtype is DType.FLOAT16 for dtype in reads):
            assert layer.seen["precision"] is trt.DataType.HALF
        else:
            assert "precision" not in layer.seen
        assert set(typed) == floats
        assert all(dtype is trt.DataType.HALF for dtype in typed.values())


def test_every_kind_has_an_emitter() -> None:
    assert {kind.__name__ for kind in EMITTERS} | {"Constant"} == set(KINDS)


@pytest.mark.parametrize("version", VERSIONS)
def test_weights_keep_dtype_and_number(version: str) -> None:
    trt, emission = write(case_for("convolution", version).network(), version)
    (layer,) = trt.of("IConvolutionLayer")
    maps, window, kernel, bias = layer.given[0][1:]
    assert (maps, tuple(window)) == (6, (3, 3))
    if version == "8.6":
        assert (kernel.given[0][0].size, bias.given[0][0].size) == (6 * 4 * 9, 6)
    else:
        assert (kernel.given[0][2], bias.given[0][2]) == (6 * 4 * 9, 6)
    assert layer.seen["stride_nd"] == (2, 1)
    assert layer.seen["dilation_nd"] == (1, 2)
    assert not trt.of("IConstantLayer")  # kernel and bias are weights of the layer, not tensors
    assert len(emission.alive) == 2


def test_a_cache_that_another_layer_reads_is_refused() -> None:
    builder = NetworkBuilder()
    given = [builder.input("cache", DType.FLOAT16, [2, 3, 9, 4]), builder.input("update", DType.FLOAT16, [2, 3, 1, 4])]
    made = builder.add_single(KVCacheUpdate(), *given, builder.input("at", DType.INT32, [2]), origin=ORIGIN)
    builder.output("made", made)
    builder.output("before", builder.add_single(Identity(), given[0], origin=ORIGIN))
    with pytest.raises(EngineBuildError, match="read beside it"):
        write(builder.build(), "11.4")


@pytest.mark.parametrize("end", ["input", "output"])
def test_a_cache_that_the_network_does_not_share_is_refused(end: str) -> None:
    builder = NetworkBuilder()
    given = [builder.input("cache", DType.FLOAT16, [2, 3, 9, 4]), builder.input("update", DType.FLOAT16, [2, 3, 1, 4])]
    if end == "input":
        given[0] = builder.add_single(Identity(), given[0], origin=ORIGIN)
    made = builder.add_single(KVCacheUpdate(), *given, builder.input("at", DType.INT32, [2]), origin=ORIGIN)
    builder.output("made", made if end == "input" else builder.add_single(Identity(), made, origin=ORIGIN))
    with pytest.raises(EngineBuildError, match=f"no {end} of the network"):
        write(builder.build(), "11.4")


def test_the_stand_in_refuses_what_a_version_lacks() -> None:
    old, new = TensorRT("8.6"), TensorRT("11.4")
    definition = old.Builder(old.Logger()).create_network(1)
    with pytest.raises(AttributeError, match="add_cumulative"):
        definition.add_cumulative  # noqa: B018
    with pytest.raises(AttributeError, match="INT64"):
        old.DataType.INT64  # noqa: B018
    with pytest.raises(ContractError):
        definition.add_input("x", new.DataType.FLOAT, (1,))
    with pytest.raises(ContractError):
        definition.add_input("x", old.DataType.FLOAT)
    with pytest.raises(ContractError):
        definition.add_input("x", old.DataType.FLOAT, (1,), dynamic=True)
    with pytest.raises(ContractError):
        definition.add_input("x", old.DataType.FLOAT, (torch.tensor(1),))
    x = definition.add_input("x", old.DataType.FLOAT, (1,))
    with pytest.raises(AttributeError, match="no axis"):
        definition.add_identity(x).axis = 1
    fresh = new.Builder(new.Logger()).create_network(1)
    layer = fresh.add_identity(fresh.add_input("x", new.DataType.FLOAT, (1,)))
    with pytest.raises(AttributeError, match="precision"):
        layer.precision = new.DataType.FLOAT
