"""How an engine is asked for its layers and their times: with the names that every version has."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from host_engine import Engine
from standin import Recorded, TensorRT

from trtdiag.engine.built_layers import Layered
from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.engine.profiles import usual_inputs
from trtdiag.engine.tensorrt.inspection import WatchedEngine, engine_text, new_stopwatch
from trtdiag.errors import TrtdiagError
from trtdiag.network import DType, NetworkBuilder, Origin
from trtdiag.network.layers.reduce import Reduce, ReduceOperation
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Num, Range, symbol
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
    engine = WatchedEngine(_engine(trt), stopwatch)
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


@pytest.mark.parametrize("version", VERSIONS)
def test_a_loaded_engine_tells_its_layers_and_times(version: str) -> None:
    engine = Engine(version)
    builder = NetworkBuilder({"s": Range(0, 8)})
    x = builder.input("x", DType.FLOAT16, [symbol("s"), 5])
    with builder.at(Origin("aten.sum.dim_IntList", "sum_1")):
        builder.output("y", builder.add_single(Reduce(ReduceOperation.SUM, (1,), False), x))
    text = json.dumps({"Layers": [{"Name": "sum_1/Reduce", "LayerType": "Reduce"}]})
    answers, runs = engine.trt.answers, []
    asked: list[Any] = []

    def tell(inspector: Recorded, _: Any) -> str:
        asked.append(inspector.execution_context)
        return text

    answers["get_engine_information"] = tell
    execute = answers["execute_async_v3"]

    def timed(context: Recorded, stream: int) -> bool:
        if "profiler" in context.seen:
            runs.append(stream)
            context.profiler.report_layer_time("sum_1/Reduce", 0.5 * len(runs))
        return execute(context, stream)

    answers["execute_async_v3"] = timed
    runner = engine.runner()
    assert isinstance(runner, Layered)
    (layer,) = runner.layers(builder.build(), 0)
    assert ([origin.node for origin in layer.ops], layer.kind, layer.time_ms) == (["sum_1"], "Reduce", None)
    assert asked == engine.contexts  # one that knows its sizes, and no profiler
    assert not runs
    engine.runs = False
    (again,) = runner.layers(builder.build(), 0)  # it cannot run: what is known without it
    assert (again, asked[-1]) == (layer, None)
    with pytest.raises(TrtdiagError):
        runner.layers(builder.build(), 1)
    engine.runs = True
    runs.clear()
    with choosing_graphs(GraphChoice(2)):  # a program's choice of CUDA graphs does not reach what is timed
        (layer,) = runner.layers(builder.build(), 5)
    assert len(runs) == 8
    assert layer.time_ms == 0.5 * 6  # the median of runs 4 to 8: the first three warm it up
    runner(engine.inputs(3, 4))
    assert len(runs) == 8  # contexts of the program have no profiler
