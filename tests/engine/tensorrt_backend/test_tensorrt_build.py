"""Configuration, profiles, and what a refusal says."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from standin import Recorded, TensorRT
from written import write

from trtdiag.engine.profiles import several
from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.config import TACTIC_SOURCES
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.engine.tensorrt.log import logger_of
from trtdiag.engine.tensorrt.network_checks import check_agreement
from trtdiag.engine.tensorrt.refusal import named_layers
from trtdiag.errors import EngineBuildError, InternalError, PlatformError, UserError
from trtdiag.graph.source import Frame
from trtdiag.network import INPUT, DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.constant import Fill
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.squeeze import Squeeze
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, mul, symbol
from trtdiag.targets import RTX_TARGETS, TARGETS, get_target

VERSIONS = [target.version for target in (*TARGETS, *RTX_TARGETS)]
RTX = [target.version for target in RTX_TARGETS]
PROFILE = {"x": (DimProfile(1, 3, 8), DimProfile(5, 5, 5))}


def _network(dtype: DType = DType.FLOAT32) -> Network:
    builder = NetworkBuilder({"s": Range(1, 8)})
    x = builder.input("x", dtype, [symbol("s"), 5])
    y = builder.add_single(
        Activation(ActivationType.TANH), x, origin=Origin("aten.tanh.default", "tanh", Frame("model.py", 7))
    )
    z = builder.add_single(
        ElementWise(ElementWiseOperation.SUM), y, y, origin=Origin("aten.add.Tensor", "add", Frame("model.py", 9))
    )
    builder.output("z", z)
    return builder.build()


def _installed(trt: TensorRT, version: str) -> InstalledTensorRT:
    return InstalledTensorRT(trt, trt.__version__, get_target(version))


@pytest.fixture(autouse=True)
def _shapes_are_not_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in infers none; the tests of ``check_agreement`` call it directly."""
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")


def _said(config: Recorded) -> list[tuple[str, tuple[Any, ...]]]:
    return [(name, tuple(map(str, args))) for name, args, _ in config.calls]


@pytest.mark.parametrize("version", VERSIONS)
def test_options_become_the_configuration(version: str, tmp_path: Path) -> None:
    trt = TensorRT(version)
    cache = tmp_path / "timings" / "cache"
    options = CompileOptions(
        workspace_mib=3,
        optimization_level=2,
        tactic_sources=("JIT_CONVOLUTIONS", "EDGE_MASK_CONVOLUTIONS"),
        timing_cache=str(cache),
        tf32=True,
    )
    building.build(_installed(trt, version), _network(), PROFILE, options)
    (config,) = trt.of("IBuilderConfig")
    said = _said(config)
    assert ("set_memory_pool_limit", ("MemoryPoolType.WORKSPACE", str(3 * 2**20))) in said
    assert config.seen["builder_optimization_level"] == 2
    bits = (1 << int(trt.TacticSource.JIT_CONVOLUTIONS)) | (1 << int(trt.TacticSource.EDGE_MASK_CONVOLUTIONS))
    assert ("set_tactic_sources", (str(bits),)) in said
    assert ("set_flag", ("BuilderFlag.TF32",)) in said
    assert cache.read_bytes() == b"made by a stand-in"
    assert [path.name for path in cache.parent.iterdir()] == ["cache"]
    building.build(_installed(trt, version), _network(), PROFILE, options)
    given = [args for name, args, _ in trt.of("IBuilderConfig")[1].calls if name == "create_timing_cache"]
    assert given[0] == (b"made by a stand-in",)


@pytest.mark.parametrize("version", RTX)
def test_one_engine_is_built_for_several_generations(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(building, "compute_capability")  # there is no GPU to ask
    trt = TensorRT(version)
    building.build(_installed(trt, version), _network(), PROFILE, CompileOptions(gpu=("sm80", "sm120")))
    (config,) = trt.of("IBuilderConfig")
    assert config.seen["num_compute_capabilities"] == 2
    told = [args for name, args, _ in config.calls if name == "set_compute_capability"]
    assert told == [(trt.ComputeCapability.SM80, 0), (trt.ComputeCapability.SM120, 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_float32_is_exact_unless_asked_otherwise(version: str) -> None:
    trt = TensorRT(version)
    building.build(_installed(trt, version), _network(), PROFILE, CompileOptions())
    said = _said(trt.of("IBuilderConfig")[0])
    assert ("clear_flag", ("BuilderFlag.TF32",)) in said
    assert not any(name == "set_tactic_sources" for name, _ in said)


def test_tactic_sources_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TACTIC_SOURCES, "JIT_CONVOLUTIONS, CUDNN")
    trt = TensorRT("8.6")
    building.build(_installed(trt, "8.6"), _network(), PROFILE, CompileOptions())
    bits = (1 << int(trt.TacticSource.JIT_CONVOLUTIONS)) | (1 << int(trt.TacticSource.CUDNN))
    assert ("set_tactic_sources", (str(bits),)) in _said(trt.of("IBuilderConfig")[0])
    trt = TensorRT("11.4")
    with pytest.raises(UserError, match="CUDNN") as caught:
        building.build(_installed(trt, "11.4"), _network(), PROFILE, CompileOptions())
    assert "EDGE_MASK_CONVOLUTIONS, JIT_CONVOLUTIONS" in caught.value.because


def test_timings_of_another_gpu_are_left_out(tmp_path: Path) -> None:
    trt = TensorRT("8.6")
    cache = tmp_path / "cache"
    cache.write_bytes(b"of another GPU")
    answers = iter([False, True])
    trt.answers["set_timing_cache"] = lambda *_: next(answers)
    building.build(_installed(trt, "8.6"), _network(), PROFILE, CompileOptions(timing_cache=str(cache)))
    (config,) = trt.of("IBuilderConfig")
    told = [args for name, args, _ in config.calls if name == "create_timing_cache"]
    assert told[:2] == [(b"of another GPU",), (b"",)]
    assert cache.read_bytes() == b"made by a stand-in"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_size_that_shapes_hang_on_has_a_profile_of_values(version: str) -> None:
    dtype = DType.INT32 if version == "8.6" else DType.INT64
    builder = NetworkBuilder({"n": Range(2, 9), "m": Range(-3, 4)})
    with builder.at(Origin("aten.full.default", "full")):
        n = builder.input("n", dtype, [], [symbol("n")])
        m = builder.input("m", dtype, [], [symbol("m")])
        shape = builder.add_single(Shuffle(reshape=(1,)), n)
        alpha, beta = builder.constant(torch.tensor(1.5)), builder.constant(torch.tensor([0.5]))
        builder.output("y", builder.add_single(Fill(INPUT, DType.FLOAT32, INPUT, INPUT), shape, alpha, beta))
        builder.output("m2", builder.add_single(ElementWise(ElementWiseOperation.SUM), m, m))
    network = builder.build()
    trt = TensorRT(version)

    def added(owner: Recorded, name: str, *args: Any) -> Recorded:
        made = trt._new("ITensor", name, args, {})
        made.__dict__["facts"] = {"is_shape_tensor": name == "input 0: n"}
        return made

    trt.answers["add_input"] = added
    profile = {"n": (DimProfile(2, 4, 9),), "m": (DimProfile(-3, 1, 4),)}
    building.build(_installed(trt, version), network, profile, CompileOptions())
    (made,) = trt.of("IOptimizationProfile")
    assert [(name, args) for name, args, _ in made.calls] == [("set_shape_input", ("input 0: n", [2], [4], [9]))]

    least = {"n": (DimProfile(2, 2, 2),), "m": (DimProfile(-3, 1, 4),)}
    building.build(_installed(trt, version), network, several([("a", least), ("b", profile)]), CompileOptions())
    calls = [[args for _, args, _ in made.calls] for made in trt.of("IOptimizationProfile")[1:]]
    assert calls == [[("input 0: n", [2], [2], [2])], [("input 0: n", [2], [4], [9])]]
    config = trt.of("IBuilderConfig")[-1]
    added_profiles = [args[0] for name, args, _ in config.calls if name == "add_optimization_profile"]
    assert added_profiles == trt.of("IOptimizationProfile")[1:]


def test_a_size_without_an_end_is_named() -> None:
    trt = TensorRT("8.6")
    profile = {"x": (DimProfile(1, 3, None), DimProfile(5, 5, 5))}
    with pytest.raises(EngineBuildError, match="'x'") as caught:
        building.build(_installed(trt, "8.6"), _network(), profile, CompileOptions())
    assert caught.value.reference == "profile-open"


def test_a_refused_profile_is_told() -> None:
    trt = TensorRT("8.6")
    trt.answers["add_optimization_profile"] = lambda *_: -1
    with pytest.raises(EngineBuildError) as caught:
        building.build(_installed(trt, "8.6"), _network(), PROFILE, CompileOptions())
    assert "1..3..8" in caught.value.message


def test_a_refused_build_names_the_op_and_its_line() -> None:
    trt = TensorRT("8.6")
    logger = logger_of(trt)

    def refuse(*_: Any) -> None:
        for severity in ("INFO", "VERBOSE", "ERROR"):
            said = (
                f"{severity}: could not find any implementation for node add/ElementWise due to insufficient workspace"
            )
            logger.log(SimpleNamespace(name=severity), said)

    trt.answers["build_serialized_network"] = refuse
    with pytest.raises(EngineBuildError) as caught:
        building.build(_installed(trt, "8.6"), _network(), PROFILE, CompileOptions())
    assert "aten.add.Tensor (add) at model.py:9" in caught.value.message
    assert "tanh" not in caught.value.message
    assert caught.value.because == (
        "[ERROR] ERROR: could not find any implementation for node add/ElementWise due to insufficient workspace"
    )
    assert "workspace_mib" in caught.value.fix


def test_a_refused_layer_names_the_op_and_its_line() -> None:
    trt = TensorRT("8.6")
    logger = logger_of(trt)

    def refuse(*_: Any) -> None:
        logger.log(SimpleNamespace(name="ERROR"), "type mismatch")

    trt.answers["add_activation"] = refuse
    with pytest.raises(EngineBuildError) as caught:
        building.build(_installed(trt, "8.6"), _network(), PROFILE, CompileOptions())
    assert "Activation for aten.tanh.default (tanh) at model.py:7" in caught.value.message
    assert "type mismatch" in caught.value.because


def test_a_name_that_begins_another_is_not_taken_for_it() -> None:
    _, emission = write(_network(), "8.6")
    placed = emission.layers["add/ElementWise"]
    layers = {"add/ElementWise": placed, "add/ElementWise#2": emission.layers["tanh/Activation"]}
    assert named_layers(layers, ["[ERROR] add/ElementWise#2 is wrong"]) == [emission.layers["tanh/Activation"]]
    assert named_layers(layers, ["[ERROR] nothing is named"]) == []


def test_no_builder_is_a_matter_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    trt = TensorRT("8.6")

    def fail(logger: Any) -> None:
        logger.log(SimpleNamespace(name="ERROR"), "CUDA initialization failure with error: 35")
        raise TypeError("pybind11::init(): factory function returned nullptr")

    broken = SimpleNamespace(ILogger=trt.ILogger, Builder=fail)
    with pytest.raises(PlatformError, match="cannot use this GPU") as caught:
        building.build(InstalledTensorRT(broken, "8.6.1", get_target("8.6")), _network(), PROFILE, CompileOptions())
    assert "error: 35" in caught.value.because


def test_a_network_of_another_version_is_refused() -> None:
    with pytest.raises(EngineBuildError) as caught:
        write(_network(DType.BFLOAT16), "8.6")
    assert caught.value.reference == "dtype-missing"
    assert "'x'" in caught.value.message


def test_an_input_that_is_an_output_gets_a_layer() -> None:
    builder = NetworkBuilder({"s": Range(1, 8)})
    x = builder.input("x", DType.FLOAT16, [symbol("s")])
    c = builder.constant(torch.tensor([1.0, 2.0]), Origin("constant", "c"))
    for name, value in (("x", x), ("again", x), ("c", c)):
        builder.output(name, value)
    trt, emission = write(builder.build(), "8.6")
    assert len(trt.of("IIdentityLayer")) == 2
    outputs = [args[0] for name, args, _ in trt.of("INetworkDefinition")[0].calls if name == "mark_output"]
    assert len({id(tensor) for tensor in outputs}) == 3
    assert [tensor.seen["name"] for tensor in outputs] == ["output 0: x", "output 1: again", "output 2: c"]
    assert [str(tensor.seen["dtype"]) for tensor in outputs] == ["DataType.HALF", "DataType.HALF", "DataType.FLOAT"]
    assert emission.inputs[0].given[0][0] == "input 0: x"


def test_dims_of_one_symbol_have_one_name() -> None:
    builder = NetworkBuilder({"s": Range(1, 8), "t": Range(1, 8)})
    with builder.at(Origin("aten.add.Tensor", "add")):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), 5, symbol("t")])
        y = builder.input("y", DType.FLOAT32, [symbol("s"), 1, mul(2, symbol("t"))])
        builder.output("x2", builder.add_single(ElementWise(ElementWiseOperation.SUM), x, x))
        builder.output("y2", builder.add_single(ElementWise(ElementWiseOperation.SUM), y, y))
    _, emission = write(builder.build(), "8.6")
    told = [[args for name, args, _ in tensor.calls if name == "set_dimension_name"] for tensor in emission.inputs]
    assert told == [[(0, "s"), (2, "t")], [(0, "s"), (2, "2*t")]]


def test_several_unknown_sizes_are_squeezed_by_shape_on_the_old_version() -> None:
    builder = NetworkBuilder({"s": Range(1, 8), "t": Range(1, 8)})
    with builder.at(Origin("aten.squeeze.dims", "squeeze")):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), 1, symbol("t")])
        builder.output("y", builder.add_single(Squeeze((1,)), x))
    network = builder.build()
    trt, _ = write(network, "8.6")
    (shuffle,) = trt.of("IShuffleLayer")
    assert [args[0] for name, args, _ in shuffle.calls if name == "set_input"] == [1]
    assert len(trt.of("IShapeLayer")) == 1
    trt, _ = write(network, "10.16")
    assert len(trt.of("ISqueezeLayer")) == 1


def _outputs(shape: Any, dtype: Any = None) -> Any:
    return SimpleNamespace(shape=shape, dtype=dtype)


class _NoShape:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def __len__(self) -> int:
        return -1

    def __iter__(self) -> Any:
        raise self._error


NO_SHAPES = (ValueError("__len__() should return >= 0"), RuntimeError("Could not get tensor shape."))
"""What the Python of 8.6.0 and that of tensorrt-rtx 1.7.1 say of a layer that is refused."""


@pytest.mark.parametrize("version", ["8.6", "11.4"])
def test_agreement(version: str) -> None:
    network = _network()
    trt = TensorRT(version)
    dialect = Dialect(trt, get_target(version))
    tanh, add = network.layers
    good = _outputs((-1, 5), trt.DataType.FLOAT)
    check_agreement(dialect, network, [(tanh, (good,)), (add, (good,))], deque())
    for error in NO_SHAPES:
        made = [(tanh, (good,)), (add, (_outputs(_NoShape(error)),))]
        with pytest.raises(EngineBuildError, match=r"aten.add.Tensor \(add\) at model.py:9"):
            check_agreement(dialect, network, made, deque(["[ERROR] no"]))
    for wrong in ((-1, 6), (-1,), (5, -1, 5)):
        with pytest.raises(InternalError, match=r"aten.tanh.default"):
            check_agreement(dialect, network, [(tanh, (_outputs(wrong, trt.DataType.FLOAT),))], deque())
    other = [(tanh, (_outputs((-1, 5), trt.DataType.HALF),))]
    if version == "8.6":  # types are only decided when the engine is built
        check_agreement(dialect, network, other, deque())
    else:
        with pytest.raises(InternalError, match=r"aten.tanh.default"):
            check_agreement(dialect, network, other, deque())
