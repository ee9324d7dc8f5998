"""What TensorRT's bindings throw instead of refusing, and which advice its words lead to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from refusal_networks import REFUSALS
from standin import TensorRT
from written import write

from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.engine.tensorrt.log import logger_of
from trtdiag.errors import EngineBuildError, PlatformError
from trtdiag.graph.source import Frame
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, symbol
from trtdiag.targets import TARGETS, get_target

ASKED = REFUSALS["layer-rank"]


@pytest.fixture(autouse=True)
def _shapes_are_not_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in infers none."""
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")


def _build(trt: Any, name: str = "layer-rank") -> None:
    asked = REFUSALS[name]
    building.build(InstalledTensorRT(trt, "8.6.1", get_target("8.6")), asked.network(), asked.profile, CompileOptions())


@pytest.mark.parametrize("version", [target.version for target in TARGETS])
@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused_on_a_gpu_can_be_written(name: str, version: str) -> None:
    assert write(REFUSALS[name].network(), version)[1].made


@pytest.mark.parametrize(
    ("method", "where"),
    [("add_input", "input (x)"), ("add_activation", "aten.tanh.default (tanh) at model.py:11")],
)
@pytest.mark.parametrize("kind", [TypeError, ValueError, RuntimeError])
def test_arguments_that_the_bindings_do_not_take(method: str, where: str, kind: type[Exception]) -> None:
    def throw(*_: Any) -> None:
        raise kind("dims has more than 8 dims\nInvoked with: many lines")

    trt = TensorRT("8.6")
    trt.answers[method] = throw
    with pytest.raises(EngineBuildError) as caught:
        _build(trt)
    assert where in caught.value.message
    assert caught.value.because == "dims has more than 8 dims; TensorRT said nothing"
    assert caught.value.reference == "layer-refused"


def test_a_profile_that_the_bindings_do_not_take_names_input_and_sizes() -> None:
    def throw(*_: Any) -> None:
        raise RuntimeError("Shape provided for max is inconsistent with other shapes.")

    trt = TensorRT("8.6")
    trt.answers["set_shape"] = throw
    with pytest.raises(EngineBuildError) as caught:
        _build(trt, "volume-profile")
    assert caught.value.reference == "profile-refused"
    assert "x: 1..3..2147483647, 50000..50000..50000" in caught.value.message
    assert "inconsistent" in caught.value.because
    assert "ranges" in caught.value.fix


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("Could not find any implementation for node tanh/Activation.", "workspace_mib"),
        ("[virtualMemoryBuffer.cpp::resizePhysical] Error Code 2: OutOfMemory", "nvidia-smi"),
        ("insufficient workspace while requesting 4096 bytes for node tanh/Activation", "workspace_mib"),
        ("input 0: x: tensor volume exceeds 2147483647, dimensions are [1,2]", "2^31"),
        ("kOPT dimensions in profile 0 are [4,3] but input has static dimensions", "ranges"),
        ("Unsupported SM: 0x900", "GPU and driver"),
        ("Error Code 1: Myelin (Cannot compile for target(s) sm75: HW-specific datatypes: b16)", "keep_in_torch"),
        ("Error Code 2: Internal Error (tanh/Activation has no runners that implement it)", "keep_in_torch"),
        ("something new", "keep_in_torch"),
    ],
)
def test_the_advice_follows_what_tensorrt_says(said: str, advice: str) -> None:
    trt = TensorRT("8.6")
    logger = logger_of(trt)

    def refuse(*_: Any) -> None:
        logger.log(SimpleNamespace(name="ERROR"), said)

    trt.answers["build_serialized_network"] = refuse
    with pytest.raises(EngineBuildError) as caught:
        _build(trt)
    assert advice in caught.value.fix
    assert said in caught.value.because
    # More memory, smaller sizes, another GPU: there is nothing to build otherwise.
    no_kernel = "find any implementation" in said or "no runners" in said
    assert caught.value.without_kernel == (("tanh",) if no_kernel else ())


def test_a_stretch_that_is_not_compiled_is_searched_as_one_without_kernels() -> None:
    # As TensorRT-RTX 1.4.0.76 says it of a transposed convolution in bfloat16, but for the layers' names.
    said = (
        "IBuilder::buildSerializedNetwork: Error Code 1: Myelin ([type.cpp:186: infer_type] Could not infer output"
        " types for operation:   927: deconv: conv_transpose2d/Deconvolution:0_before_bias- |"
        " (bf16[{ForeignNode[add/ElementWise...tanh/Activation]}_shapeInput,64][]so[], mem_prop=0, align=2)",
        "[checkMacros.cpp::catchCudaError::229] Error Code 1: Cuda Runtime (In catchCudaError)",
    )
    trt = TensorRT("rtx-1.4")
    logger = logger_of(trt)

    def refuse(*_: Any) -> None:
        for line in said:
            logger.log(SimpleNamespace(name="ERROR"), line)

    trt.answers["build_serialized_network"] = refuse
    with pytest.raises(EngineBuildError) as caught:
        building.build(
            InstalledTensorRT(trt, "1.4.0.76", get_target("rtx-1.4")), _chain(), _SIZES, CompileOptions(gpu=("sm89",))
        )
    assert caught.value.without_kernel == ("add", "tanh")


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ("tanh/Activation", ("tanh",)),
        ("PWN(tanh/Activation, add/ElementWise)", ("add", "tanh")),
        ("{ForeignNode[nothing of ours]}", ("builder", "tanh")),  # the ends of the network
    ],
)
def test_the_ops_without_a_kernel_are_told(node: str, found: tuple[str, ...]) -> None:
    trt = TensorRT("8.6")
    logger = logger_of(trt)
    said = f"10: Could not find any implementation for node {node}."

    def refuse(*_: Any) -> None:
        logger.log(SimpleNamespace(name="ERROR"), said)

    trt.answers["build_serialized_network"] = refuse
    with pytest.raises(EngineBuildError) as caught:
        building.build(InstalledTensorRT(trt, "8.6.1", get_target("8.6")), _chain(), _SIZES, CompileOptions())
    assert set(caught.value.without_kernel) == set(found)


def test_a_stretch_is_named_by_its_ends_and_said_once() -> None:
    # As 8.6.0 says it, word for word but for the layers' names.
    node = "{ForeignNode[builder/Constant + add/ElementWise...tanh/Activation]}"
    said = (
        f"10: Could not find any implementation for node {node}.",
        f"10: [optimizer.cpp::computeCosts::3873] Error Code 10: Internal Error"
        f" (Could not find any implementation for node {node}.)",
    )
    trt = TensorRT("8.6")
    logger = logger_of(trt)

    def refuse(*_: Any) -> None:
        logger.log(SimpleNamespace(name="WARNING"), "one kernel of tanh/Activation was left out")
        for line in said:
            logger.log(SimpleNamespace(name="ERROR"), line)

    trt.answers["build_serialized_network"] = refuse
    with pytest.raises(EngineBuildError) as caught:
        building.build(InstalledTensorRT(trt, "8.6.1", get_target("8.6")), _chain(), _SIZES, CompileOptions())
    assert caught.value.message == (
        "TensorRT does not build the engine: what it compiles as one, from ElementWise for aten.add.Tensor (add) at"
        " model.py:3 to Activation for aten.tanh.default (tanh) at model.py:4"
    )
    assert caught.value.because == f"[ERROR] {said[1]}; [WARNING] one kernel of tanh/Activation was left out"
    assert "keep_in_torch='aten.tanh.default'" in caught.value.fix
    assert caught.value.without_kernel == ("add", "tanh")


_SIZES = {"x": (DimProfile(1, 3, 8),)}


def _chain() -> Network:
    builder = NetworkBuilder({"s": Range(1, 8)})
    x = builder.input("x", DType.FLOAT32, [symbol("s")])
    one = builder.constant(torch.tensor([1.0]), Origin("network", "builder"))
    origin = Origin("aten.add.Tensor", "add", Frame("model.py", 3))
    y = builder.add_single(ElementWise(ElementWiseOperation.SUM), x, one, origin=origin)
    origin = Origin("aten.tanh.default", "tanh", Frame("model.py", 4))
    builder.output("y", builder.add_single(Activation(ActivationType.TANH), y, origin=origin))
    return builder.build()


@pytest.mark.parametrize("version_compatible", [True, False])
def test_an_engine_for_other_versions_without_the_library_that_it_holds(version_compatible: bool) -> None:
    # As 8.6.0 says it, word for word.
    said = (
        "6: [libLoader.cpp::Impl::293] Error Code 6: Internal Error (Unable to load library: libnvinfer_lean.so.8.6.0)"
    )
    trt = TensorRT("8.6")
    logger = logger_of(trt)

    def refuse(*_: Any) -> None:
        logger.log(SimpleNamespace(name="ERROR"), said)

    trt.answers["build_serialized_network"] = refuse
    options = CompileOptions(version_compatible=version_compatible)
    with pytest.raises(PlatformError if version_compatible else EngineBuildError) as caught:
        building.build(InstalledTensorRT(trt, "8.6.1", get_target("8.6")), _chain(), _SIZES, options)
    assert caught.value.reference == ("lean-runtime-missing" if version_compatible else "engine-refused")
    assert said in caught.value.because


@pytest.mark.parametrize(
    ("said", "reference", "advice"),
    [
        ("CUDA initialization failure with error: 35", "builder-missing", "driver"),
        ("Requested amount of GPU memory (4096 bytes) could not be allocated", "builder-memory", "nvidia-smi"),
    ],
)
def test_no_builder_is_no_gpu_or_a_full_one(said: str, reference: str, advice: str) -> None:
    trt = TensorRT("8.6")

    def fail(logger: Any) -> None:
        logger.log(SimpleNamespace(name="ERROR"), said)
        raise TypeError("pybind11::init(): factory function returned nullptr")

    with pytest.raises(PlatformError) as caught:
        _build(SimpleNamespace(ILogger=trt.ILogger, Builder=fail))
    assert caught.value.reference == reference
    assert advice in caught.value.fix
    assert said in caught.value.because
