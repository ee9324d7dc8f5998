"""Engines of ONNX files, against the surface of each version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from standin import Recorded, TensorRT

from trtdiag.engine.tensorrt import onnx_engine
from trtdiag.engine.tensorrt.context_memory import scratch_bytes
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.engine.tensorrt.onnx_engine import OnnxEngine, build_onnx
from trtdiag.errors import EngineBuildError, PlatformError
from trtdiag.options import CompileOptions, Precision
from trtdiag.targets import TARGETS, get_target

VERSIONS = [target.version for target in TARGETS]
SHAPES = ({"x": (1, 5)}, {"x": (3, 5)}, {"x": (8, 5)})


@pytest.fixture(autouse=True)
def _no_gpu_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_engine, "compute_capability", lambda: "9.0")


def _installed(version: str, **answers: Any) -> InstalledTensorRT:
    trt = TensorRT(version)
    trt.answers.update(answers)
    return InstalledTensorRT(trt, trt.__version__, get_target(version))


def _with_input(owner: Recorded, file: str) -> bool:
    """What parsing does: the definition has an input afterwards."""
    definition = owner.given[0][0]
    definition.__dict__["facts"] = {"num_inputs": 1}
    owner.__dict__["facts"] = {"num_errors": 2}
    return not file.endswith("broken.onnx")


def _named(owner: Recorded, index: int) -> Any:
    made = owner._module._new("ITensor", "get_input", (), {})
    made.__dict__["facts"] = {"name": "x"}
    return made


def _parses(version: str) -> InstalledTensorRT:
    installed = _installed(version, parse_from_file=_with_input, get_input=_named)
    installed.trt.answers["get_error"] = lambda _, index: f"no importer for op {index}"
    return installed


@pytest.mark.parametrize("version", VERSIONS)
def test_profile_and_options_are_those_of_ours(version: str) -> None:
    installed = _parses(version)
    assert build_onnx(installed, Path("model.onnx"), SHAPES, CompileOptions(workspace_mib=3)) == b"made by a stand-in"
    (profile,) = installed.trt.of("IOptimizationProfile")
    assert profile.calls == [("set_shape", ("x", (1, 5), (3, 5), (8, 5)), {})]
    (config,) = installed.trt.of("IBuilderConfig")
    assert ("set_memory_pool_limit", 3 * 2**20) in [(name, args[-1]) for name, args, _ in config.calls]
    assert ("add_optimization_profile", (profile,), {}) in config.calls


def test_half_precision_is_allowed_and_never_obeyed() -> None:
    installed = _parses("8.6")
    build_onnx(installed, Path("model.onnx"), SHAPES, CompileOptions(precision=Precision.FP16))
    (config,) = installed.trt.of("IBuilderConfig")
    flags = [str(args[0]) for name, args, _ in config.calls if name == "set_flag"]
    assert "BuilderFlag.FP16" in flags
    assert "BuilderFlag.OBEY_PRECISION_CONSTRAINTS" not in flags


def test_version_that_has_no_precision_flags() -> None:
    with pytest.raises(PlatformError) as caught:
        build_onnx(_installed("11.4"), Path("model.onnx"), SHAPES, CompileOptions(precision=Precision.FP16))
    assert caught.value.reference == "onnx-precision"


def test_file_that_is_refused() -> None:
    with pytest.raises(EngineBuildError) as caught:
        build_onnx(_parses("8.6"), Path("broken.onnx"), SHAPES, CompileOptions())
    assert caught.value.because == "no importer for op 0; no importer for op 1"


def test_engine_that_is_not_built() -> None:
    installed = _parses("8.6")
    installed.trt.answers["build_serialized_network"] = lambda *_: None
    with pytest.raises(EngineBuildError) as caught:
        build_onnx(installed, Path("model.onnx"), SHAPES, CompileOptions())
    assert caught.value.reference == "onnx-refused"


@pytest.mark.parametrize("version", VERSIONS)
def test_inputs_are_bound_in_the_engines_types(version: str) -> None:
    installed = _installed(version, get_tensor_name=lambda _, index: ["ids", "y"][index])
    trt = installed.trt
    trt.answers["get_tensor_mode"] = lambda _, name: (
        trt.TensorIOMode.INPUT if name == "ids" else trt.TensorIOMode.OUTPUT
    )
    trt.answers["get_tensor_dtype"] = lambda _, name: trt.DataType.INT32 if name == "ids" else trt.DataType.HALF
    trt.answers["get_tensor_shape"] = lambda _, name: (3, 7)
    trt.answers["deserialize_cuda_engine"] = lambda owner, blob: _engine(trt)
    engine = OnnxEngine(installed, b"bytes", torch.device("cpu"))
    assert engine.scratch_bytes == 4096
    engine.bound({"ids": torch.ones(3, 5, dtype=torch.int64)})
    (context,) = trt.of("IExecutionContext")
    assert ("set_input_shape", ("ids", (3, 5)), {}) in context.calls
    assert [args[0] for name, args, _ in context.calls if name == "set_tensor_address"] == ["ids", "y"]


def _engine(trt: TensorRT) -> Recorded:
    made = trt._new("ICudaEngine", "deserialize_cuda_engine", (), {})
    made.__dict__["facts"] = {"num_io_tensors": 2, "device_memory_size": 4096, "device_memory_size_v2": 4096}
    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_scratch_memory(version: str) -> None:
    assert scratch_bytes(_engine(TensorRT(version))) == 4096
