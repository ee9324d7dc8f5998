"""What TensorRT tells of the layers of an engine, and the time that each takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from trtdiag.engine.backend import Runner
from trtdiag.engine.built_layers import LayerInfo, LayerTensor
from trtdiag.engine.cuda_graph_choice import choosing_graphs
from trtdiag.engine.tensorrt.fused_layers import joined
from trtdiag.errors import TrtdiagError
from trtdiag.network import Network

_WARM_UP = 3
"""Own choice: the first runs load kernels and let the clock rise."""


def engine_text(trt: Any, engine: Any, context: Any = None) -> str:
    """The inspector's JSON; with a context its sizes are those that the context was told last."""
    inspector = engine.create_engine_inspector()
    if context is not None:
        inspector.execution_context = context
    return str(inspector.get_engine_information(trt.LayerInformationFormat.JSON))


def new_stopwatch(trt: Any) -> Any:
    """A profiler whose ``times`` are the milliseconds of each layer as they are told: (name, time) in order."""

    class Stopwatch(trt.IProfiler):  # type: ignore[misc]  # the class is known when TensorRT is imported
        def __init__(self) -> None:
            trt.IProfiler.__init__(self)
            self.times: list[tuple[str, float]] = []

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self.times.append((layer_name, float(ms)))

    return Stopwatch()


class WatchedEngine:
    """An engine whose execution contexts are kept and, with a stopwatch, time their layers; the rest is its own.

    A context that has a profiler waits for the GPU at the end of each run and then reports.
    Source: nvinfer1::IExecutionContext::setEnqueueEmitsProfile, on by default.

    Args:
        engine: The deserialised engine.
        stopwatch: The profiler of its contexts; ``None``: they have none.
    """

    def __init__(self, engine: Any, stopwatch: Any = None) -> None:
        self._engine, self._stopwatch = engine, stopwatch
        self.contexts: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def create_execution_context(self, *args: Any, **kwargs: Any) -> Any:
        """A context that times its layers, where they are to be timed."""
        return self._watched(self._engine.create_execution_context(*args, **kwargs))

    def create_execution_context_without_device_memory(self) -> Any:
        """The same, as TensorRT 8.6 makes one without scratch memory."""
        return self._watched(self._engine.create_execution_context_without_device_memory())

    def _watched(self, made: Any) -> Any:
        if made is not None:
            self.contexts.append(made)
            if self._stopwatch is not None:
                made.profiler = self._stopwatch
        return made


def engine_layers(
    trt: Any, engine: Any, network: Network, inputs: Sequence[torch.Tensor], runs: int, runner: Callable[[Any], Runner]
) -> tuple[LayerInfo, ...]:
    """The layers of an engine, joined to the ops of its network; timed where ``runs`` is above 0.

    Args:
        trt: The module ``tensorrt``.
        engine: The deserialised engine.
        network: What it was built from.
        inputs: Of the sizes to tell of.
        runs: How often it is timed; 0: it runs once, so that sizes and formats are known, as far as it can.
        runner: Gives what runs an engine.

    Raises:
        PlatformError: ``context-memory``, where it is to be timed.
    """
    stopwatch = new_stopwatch(trt) if runs else None
    watched = WatchedEngine(engine, stopwatch)
    times = []
    try:
        run = runner(watched)
        with choosing_graphs(None):  # a graph that runs tells no times
            for number in range(_WARM_UP + runs if runs else 1):
                if stopwatch is not None:
                    stopwatch.times.clear()
                run(inputs)
                if stopwatch is not None and number >= _WARM_UP:
                    times.append(tuple(stopwatch.times))
    except TrtdiagError:
        if runs:
            raise
        return joined(read_layers(engine_text(trt, engine)), network)
    # With dynamic sizes formats are told of a context that knows its sizes, and of no engine.
    return joined(read_layers(engine_text(trt, engine, watched.contexts[-1])), network, times)


# What the inspector writes of an engine, read: the forms of TensorRT 8.6, 10 and 11.
#
# Source: the texts of TensorRT 8.6.0 in tests/engine/tensorrt_backend/inspected; for 10 and 11 NVIDIA's pages "Engine
# Inspector" (10.16.1) and "Migrating IEngineInspector Usage from TensorRT 10.x to 11.x" (11.3.0).


# In this order: FP16 is in BF16, and INT8 in UINT8.
_DTYPES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), dtype)
    for pattern, dtype in (
        (r"\bBF16\b|BFloat16", "bfloat16"),
        (r"\bFP16\b|\bHalf\b", "float16"),
        (r"\bFP32\b|\bFloat\b|\bFloat32\b", "float32"),
        (r"\bFP8\b", "float8"),
        (r"\bUINT8\b", "uint8"),
        (r"\bINT8\b", "int8"),
        (r"\bINT32\b", "int32"),
        (r"\bINT64\b", "int64"),
        (r"\bBOOL\b", "bool"),
    )
)


def read_layers(text: str) -> tuple[LayerInfo, ...]:
    """The layers in the text, without their ops; none where it has no form that is known."""
    try:
        # Names of layers that were fused are joined by control characters, which strict JSON does not take.
        document = json.loads(text, strict=False)
    except ValueError:
        return ()
    layers = document.get("Layers") if isinstance(document, dict) else None
    return tuple(_layer(entry) for entry in layers or ()) if isinstance(layers, list) else ()


def _layer(entry: Any) -> LayerInfo:
    if not isinstance(entry, dict):  # an engine that keeps names alone
        return LayerInfo(str(entry), "")
    tactic = _text(entry, "TacticName") or _text(entry, "TacticValue")
    return LayerInfo(
        _text(entry, "Name"),
        _text(entry, "LayerType") or _text(entry, "ParameterType"),
        inputs=_tensors(entry.get("Inputs")),
        outputs=_tensors(entry.get("Outputs")),
        tactic="" if re.fullmatch(r"0x0*", tactic) else tactic,
        metadata=_text(entry, "Metadata"),
    )


def _tensors(entries: Any) -> tuple[LayerTensor, ...]:
    return tuple(_tensor(entry) for entry in entries if isinstance(entry, dict)) if isinstance(entries, list) else ()


def _tensor(entry: Mapping[str, Any]) -> LayerTensor:
    both = _text(entry, "Format/Datatype")
    told = _text(entry, "Datatype") or _text(entry, "DataType") or both
    dtype = next((dtype for pattern, dtype in _DTYPES if pattern.search(told)), "")
    sizes = entry.get("Dimensions")
    shape = tuple(int(size) for size in sizes if isinstance(size, int)) if isinstance(sizes, list) else ()
    return LayerTensor(_text(entry, "Name"), dtype, _text(entry, "Format") or both, shape)


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""
