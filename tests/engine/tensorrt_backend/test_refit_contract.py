"""Refits by TensorRT's Refitter, against the API of each version; nothing is computed."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
import torch
from standin import Recorded, TensorRT

from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.engine.tensorrt.refit import named_constants, packed_engine, refitted, unpacked_engine, without_weights
from trtdiag.errors import ArtifactError
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.convolution import Convolution
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.gather import Gather
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, symbol
from trtdiag.targets import RTX_TARGETS, TARGETS, get_target

VERSIONS = [target.version for target in (*TARGETS, *RTX_TARGETS)]
PROFILE = {"x": tuple(DimProfile(low, low, high) for low, high in ((1, 8), (2, 2), (5, 5), (5, 5)))}
ORIGIN = Origin("aten.conv2d.default", "conv2d")


def _network() -> Network:
    """A kernel that two convolutions read, one whose dims are moved first, a bias, and places of rows."""
    builder = NetworkBuilder({"s": Range(1, 8)})
    x = builder.input("x", DType.FLOAT32, [symbol("s"), 2, 5, 5])
    kernel = builder.constant(torch.full((2, 2, 1, 1), 3.0), ORIGIN)
    moved = builder.add_single(Shuffle((1, 0, 2, 3)), kernel, origin=ORIGIN)
    bias = builder.constant(torch.tensor([1.0, 2.0]), ORIGIN)
    places = builder.constant(torch.tensor([1, 0], dtype=torch.int32), ORIGIN)
    layer = Convolution((1, 1), (0, 0), (0, 0), (1, 1), 1)
    y = builder.add_single(layer, x, kernel, bias, origin=ORIGIN)
    y = builder.add_single(layer, y, moved, bias, origin=ORIGIN)
    y = builder.add_single(Gather(axis=1), y, places, origin=ORIGIN)
    y = builder.add_single(ElementWise(ElementWiseOperation.SUM), y, y, origin=ORIGIN)
    builder.output("y", y)
    return builder.build()


@pytest.fixture(autouse=True)
def _without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in infers no shapes, and there is no GPU to ask for."""
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    monkeypatch.setattr(building, "compute_capability", lambda: "8.9")


def _engine(version: str, names: list[str], **facts: Any) -> tuple[TensorRT, Recorded]:
    trt = TensorRT(version)
    trt.answers["get_all_weights"] = lambda _: names
    trt.answers["get_missing_weights"] = lambda _: facts.get("missing", [])
    trt.answers["refit_cuda_engine"] = lambda _: facts.get("refits", True)
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(b"bytes")
    engine.__dict__["facts"] = {"refittable": facts.get("refittable", True)}
    return trt, engine


def _dialect(trt: TensorRT, version: str) -> Dialect:
    return Dialect(trt, get_target(version))


def _calls(objects: list[Recorded], name: str) -> list[tuple[Any, ...]]:
    return [args for each in objects for called, args, _ in each.calls if called == name]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_build_names_the_weights_that_may_change(version: str) -> None:
    trt, network = TensorRT(version), _network()
    trt.answers["build_serialized_network"] = lambda *_: b"engine"
    installed = InstalledTensorRT(trt, trt.__version__, get_target(version))
    gpu = ("sm89",) if version.startswith("rtx") else ()
    building.build(installed, network, PROFILE, CompileOptions(refittable=True, gpu=gpu))
    (definition,), (config,) = trt.of("INetworkDefinition"), trt.of("IBuilderConfig")
    named = _calls([definition], "set_weights_name")
    assert {name for _, name in named} == {str(number) for number in named_constants(network)}
    assert len(named) == 3  # the kernel, the moved one and the bias: each once; the places are integers
    marked = [name for (name,) in _calls([definition], "mark_weights_refittable")]
    flags = {flag.name for (flag,) in _calls([config], "set_flag")}
    if version == "8.6":
        assert ("REFIT" in flags, marked) == (True, [])
    else:
        assert ("REFIT_INDIVIDUAL" in flags, len(marked)) == (True, 3)
        assert "REFIT" not in flags


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_build_names_none(version: str) -> None:
    trt = TensorRT(version)
    trt.answers["build_serialized_network"] = lambda *_: b"engine"
    gpu = ("sm89",) if version.startswith("rtx") else ()
    building.build(
        InstalledTensorRT(trt, trt.__version__, get_target(version)), _network(), PROFILE, CompileOptions(gpu=gpu)
    )
    assert not _calls(trt.of("INetworkDefinition"), "set_weights_name")
    flags = {flag.name for (flag,) in _calls(trt.of("IBuilderConfig"), "set_flag")}
    assert not {"REFIT", "REFIT_INDIVIDUAL"} & flags


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refit_gives_every_named_weight(version: str) -> None:
    network = _network()
    names = [str(number) for number in named_constants(network)]
    trt, engine = _engine(version, names)
    given: list[str] = []
    trt.answers["set_named_weights"] = lambda _, name, weights: given.append(name) or True
    assert refitted(_dialect(trt, version), engine, network) == b"made by a stand-in"
    assert sorted(given) == sorted(names)
    flags = {(name, args[0].name) for each in trt.of("ISerializationConfig") for name, args, _ in each.calls}
    assert flags == (set() if version == "8.6" else {("clear_flag", "EXCLUDE_WEIGHTS"), ("set_flag", "INCLUDE_REFIT")})


@pytest.mark.parametrize("version", VERSIONS)
def test_an_engine_without_weights(version: str) -> None:
    network = _network()
    trt, engine = _engine(version, [str(number) for number in named_constants(network)])
    given: list[Any] = []
    trt.answers["set_named_weights"] = lambda _, __, weights: given.append(weights.given[0][0]) or True
    bare = packed_engine(without_weights(_dialect(trt, version), engine, network))
    earlier = b"trtdiag engine of zeros\n" + zlib.compress(b"made by a stand-in", 6)
    for blob in (bare, memoryview(bare), earlier, b"made by a stand-in"):
        assert unpacked_engine(blob, network) == b"made by a stand-in"
    for damaged in (bare[:40] + b"?" + bare[41:], bare[:-9], earlier[:30] + b"?" + earlier[31:], earlier[:-5]):
        with pytest.raises(ArtifactError, match="cannot be read"):
            unpacked_engine(damaged, network)
    if version == "8.6":  # it is refitted with zeros
        assert len(given) == 3
        assert not any(array.any() for array in given)
    else:
        flags = {(name, args[0].name) for each in trt.of("ISerializationConfig") for name, args, _ in each.calls}
        assert ("set_flag", "EXCLUDE_WEIGHTS") in flags


@pytest.mark.parametrize("version", ["8.6", "11.4"])
def test_what_tensorrt_refuses(version: str) -> None:
    network = _network()
    names = [str(number) for number in named_constants(network)]
    for words, facts in {
        "not built refittable": {"refittable": False},
        "it misses 9": {"missing": ["9"]},
        "does not give an engine other weights": {"refits": False},
    }.items():
        trt, engine = _engine(version, names, **facts)
        with pytest.raises(ArtifactError, match=words):
            refitted(_dialect(trt, version), engine, network)
    trt, engine = _engine(version, names[1:])
    with pytest.raises(ArtifactError, match=r"does not have the weights of aten\.conv2d\.default"):
        refitted(_dialect(trt, version), engine, network)
    trt, engine = _engine(version, names)
    trt.answers["set_named_weights"] = lambda *_: False
    with pytest.raises(ArtifactError, match="it refuses the weights of"):
        refitted(_dialect(trt, version), engine, network)
