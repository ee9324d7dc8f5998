"""What TensorRT tells of the layers of an engine, and the time that each takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from trtdiag.engine.backend import Runner
from trtdiag.engine.built_layers import LayerInfo
from trtdiag.engine.cuda_graph_choice import choosing_graphs
from trtdiag.engine.tensorrt.fused_layers import joined
from trtdiag.engine.tensorrt.layer_text import read_layers
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
