"""What TensorRT's bindings throw instead of refusing, and which advice its words lead to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from refusal_networks import REFUSALS
from standin import TensorRT
from written import write

from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.door import Door
from trtdiag.engine.tensorrt.log import logger_of
from trtdiag.errors import EngineBuildError, PlatformError
from trtdiag.options import CompileOptions
from trtdiag.targets import TARGETS, get_target

ASKED = REFUSALS["layer-rank"]


@pytest.fixture(autouse=True)
def _shapes_are_not_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in infers none."""
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")


def _build(trt: Any, name: str = "layer-rank") -> None:
    asked = REFUSALS[name]
    building.build(Door(trt, "8.6.1", get_target("8.6")), asked.network(), asked.profile, CompileOptions())


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
