"""How an engine is asked for its layers and their times: with the names that every version has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from standin import TensorRT

from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.engine.tensorrt.inspection import TimedEngine, engine_text, new_stopwatch
from trtdiag.engine.usual_inputs import usual_inputs
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Num, symbol
from trtdiag.targets import TARGETS

VERSIONS = [target.version for target in TARGETS]


def _engine(trt: TensorRT) -> Any:
    return trt.Runtime(trt.Logger()).deserialize_cuda_engine(b"bytes")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_inspector_is_asked_for_json(version: str) -> None:
    trt = TensorRT(version)
    engine = _engine(trt)
    trt.answers["get_engine_information"] = lambda inspector, format_: f"{format_} {inspector.execution_context}"
    assert engine_text(trt, engine) == "LayerInformationFormat.JSON None"
    context = engine.create_execution_context()
    assert engine_text(trt, engine, context) == f"LayerInformationFormat.JSON {context}"
    assert len(trt.of("EngineInspector")) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_contexts_of_a_timed_engine_report_their_layers(version: str) -> None:
    trt = TensorRT(version)
    stopwatch = new_stopwatch(trt)
    engine = TimedEngine(_engine(trt), stopwatch)
    context = engine.create_execution_context()
    assert context.profiler is stopwatch
    assert engine.contexts == [context]
    stopwatch.report_layer_time("a + b", 0.25)
    assert stopwatch.times == [("a + b", 0.25)]
    trt.answers["get_tensor_name"] = lambda _, index: f"tensor {index}"
    assert engine.get_tensor_name(3) == "tensor 3"
    trt.answers["create_execution_context"] = lambda *_: None  # no memory: the runner says so
    assert engine.create_execution_context() is None
    assert engine.contexts == [context]


def test_inputs_have_the_usual_sizes() -> None:
    size = DimProfile(0, 3, 8)
    ports = (
        EngineInput("x", torch.float16, (symbol("s"), Num(5)), (size, DimProfile(5, 5, 5))),
        EngineInput("at", torch.int64, (symbol("s"),), (size,)),
        EngineInput("keep", torch.bool, (), ()),
        EngineInput("n", torch.int32, (), (DimProfile(-2, 7, 8),), symbol("n")),
    )
    manifest = Manifest("0", "tensorrt", "8.6", "cpu", "0" * 64, "0" * 64, ports, (), {})
    x, at, keep, n = usual_inputs(manifest, "cpu")
    assert (x.dtype, x.shape) == (torch.float16, (3, 5))
    assert x.std() > 0
    assert (at.dtype, at.tolist()) == (torch.int64, [0, 0, 0])
    assert (keep.dtype, keep.shape) == (torch.bool, ())
    assert (n.dtype, int(n)) == (torch.int32, 7)
    assert torch.equal(usual_inputs(manifest, "cpu")[0], x)
