"""The only context of each profile of an engine, for releases of TensorRT whose contexts cannot share a profile."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from trtdiag.engine.cuda_graph_choice import GraphChoice
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.tensorrt.context import EngineContext, Latest, Turn
from trtdiag.engine.tensorrt.context_memory import ContextMemory
from trtdiag.engine.tensorrt.cuda_graphs import Casts, EngineGraphs
from trtdiag.engine.tensorrt.engine_bindings import Key, Ports
from trtdiag.engine.tensorrt.gpu import Gpu
from trtdiag.engine.tensorrt.prepared_run import PreparedRun

SHARING = "PROFILE_SHARING_0806"
"""The preview feature of TensorRT 8.6 that lets contexts share a profile; from 10 on they always do.

Source: nvinfer1::PreviewFeature::kPROFILE_SHARING_0806.
"""

_WORTH = 4
"""Own choice: a recorded run paid when it was used so often as times of what it had to wait for."""
_MOST_WANTED = 1024
"""Own choice: runs of the same sizes in a row, after which a run is recorded whatever became of those before."""


def shares_profiles(trt: Any) -> bool:
    """Whether contexts of one engine can share a profile."""
    return hasattr(trt, "ExecutionContextAllocationStrategy") or SHARING in trt.PreviewFeature.__members__


def has_one_context(trt: Any, manifest: Manifest) -> bool:
    """Whether an engine can have one context only: or one for each of its profiles: its sizes vary."""
    return not shares_profiles(trt) and any(dim.min != dim.max for port in manifest.inputs for dim in port.profile)


class OneContext:
    """Runs of one context, which threads and streams take in turns: the GPU waits for the run before, nobody else.

    A recorded run is bound to the sizes of its context: it goes when others come.  So it is recorded once the same
    sizes have come several times in a row, and later each time that it went unused.

    Args:
        ports: The engine's inputs and outputs.
        scratch: Makes the context, and has memory for it.
        gpu: Orders runs on different streams, and records them.
        profile: Which of the engine's profiles it has.
        latest: Which the contexts of the other profiles share: they run one after the other, in the same memory.

    Attributes:
        refused: Why runs cannot be recorded; empty where nothing failed.
    """

    def __init__(
        self, ports: Ports, scratch: ContextMemory, gpu: Gpu, profile: int = 0, latest: Latest | None = None
    ) -> None:
        self._ports, self._scratch, self._gpu, self._profile = ports, scratch, gpu, profile
        self._latest = latest or Latest()
        self._turn = Turn(self._latest)
        self.refused = ""
        self._context: EngineContext | None = None
        self._graphs: tuple[GraphChoice, EngineGraphs] | None = None
        self._wanted = 2

    def run(
        self, given: Sequence[torch.Tensor], key: Key, stream: int, choice: GraphChoice | None = None
    ) -> Sequence[torch.Tensor]:
        """The outputs.

        Args:
            given: The inputs where the engine looks for them.
            key: What decides their sizes.
            stream: Where to run.
            choice: Of the program that is running, where it wants runs recorded.

        Raises:
            InternalError: ``tensorrt-run``.
            PlatformError: ``context-memory``.
        """
        with self._latest.lock:
            if self._context is None:
                self._context = EngineContext(self._ports, self._scratch, stream, self._profile)
            if self._latest.memory is None:
                self._latest.memory = self._scratch.own()
            memory = self._latest.memory
            self._follow(stream)
            if self._context.key != key:
                self._forget()
            self._turn.in_a_row += 1
            self._context.take(memory)
            graphs = self._graphs_of(choice, self._context)
            outputs = None if graphs is None else graphs.run(given, key, stream)
            if graphs is not None:
                self.refused = graphs.refused
            return self._context.run(given, memory, key, stream) if outputs is None else outputs

    def prepared(
        self, key: Key, stream: int, choice: GraphChoice | None, casts: Casts = (), pairs: Collection[int] = ()
    ) -> PreparedRun | None:
        """See ``EngineRunner.prepared``."""
        with self._latest.lock:
            context = self._context
            if context is None or context.key != key or self._latest.stream != stream:
                return None
            graphs = None
            if choice is not None and not self.refused:
                graphs = None if self._graphs is None or self._graphs[0] is not choice else self._graphs[1]
                if graphs is None or (graphs.shapes(key) is None and not graphs.never(key)):
                    return None
                graphs = None if graphs.never(key) else graphs
            casts, pairs = ((), ()) if graphs is None else (casts, pairs)
            own = self._ports, key, context.shapes, self._gpu, stream, context, self._scratch, graphs, self._turn
            return PreparedRun(*own, casts, pairs)

    def _follow(self, stream: int) -> None:
        """Let a stream wait for the run before, where that was on another."""
        latest = self._latest
        if latest.stream not in (None, stream) and latest.memory is not None:
            self._gpu.follow(self._gpu.mark(self._ports.device, latest.stream), latest.memory)
        latest.stream = stream

    def _forget(self) -> None:
        """Drop what is recorded for the sizes so far."""
        if self._graphs is not None and len(self._graphs[1]):
            # Recording that did not pay is not done again soon.
            used = self._turn.in_a_row - self._wanted
            self._wanted = 2 if used > _WORTH * self._wanted else min(2 * self._wanted, _MOST_WANTED)
        if self._graphs is not None:  # runs that were prepared may still have it
            self._graphs[1].drop()
        self._graphs, self._turn.in_a_row = None, 0

    def _graphs_of(self, choice: GraphChoice | None, context: EngineContext) -> EngineGraphs | None:
        if choice is None or self._turn.in_a_row < self._wanted:
            return None
        if self._graphs is None or self._graphs[0] is not choice:
            made = EngineGraphs(self._ports, lambda _: context, self._gpu, most=1)
            self._graphs = choice, made
        return self._graphs[1]


def one_for_each_profile(ports: Ports, scratch: ContextMemory, gpu: Gpu) -> tuple[OneContext, ...]:
    """What runs each profile of an engine; they share scratch memory, and run one after the other."""
    latest = Latest()
    return tuple(
        OneContext(ports, scratch, gpu, index, latest) for index in range(max(1, len(ports.manifest.profiles)))
    )
