"""Runs of a segment of AOTInductor as CUDA graphs: its code launches each kernel, and the GPU waits for the host."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from threading import local
from typing import TypeAlias
from weakref import WeakKeyDictionary

import torch

from trtdiag.engine.cuda_graph_cache import CudaGraphCache
from trtdiag.engine.cuda_graph_choice import GraphChoice, running_call
from trtdiag.engine.recorded_run import RecordedRun, record
from trtdiag.engine.tensorrt.gpu import Gpu
from trtdiag.wording import first_line

Shapes: TypeAlias = tuple[torch.Size, ...]
Graphs: TypeAlias = CudaGraphCache[Shapes, RecordedRun]
Run: TypeAlias = Callable[[list[torch.Tensor]], tuple[torch.Tensor, ...]]


class _Kept(local):
    """The graphs of one thread, by who asked for them and by stream."""

    def __init__(self) -> None:
        self.by_choice: WeakKeyDictionary[GraphChoice, dict[int, Graphs]] = WeakKeyDictionary()


class SegmentGraphs:
    """The recorded runs of one segment.

    Args:
        run: Runs it; its outputs share no memory with its inputs.
        device: Where.
        alone: For how many sizes graphs are kept where no program says how many, as in one of ``torch.export.load``.
        gpu: What records.

    Attributes:
        refused: Why it cannot be recorded; empty where nothing failed.
    """

    def __init__(self, run: Run, device: torch.device, alone: int, gpu: Gpu | None = None) -> None:
        self._run, self._device, self._gpu = run, device, gpu or Gpu()
        self._alone = GraphChoice(alone) if alone else None
        self._kept = _Kept()
        self.refused = ""

    def __call__(self, inputs: list[torch.Tensor]) -> Sequence[torch.Tensor] | None:
        """The outputs, in new memory; ``None`` where these sizes are to run as always.

        Args:
            inputs: Row-major tensors on the device.
        """
        call = running_call()
        choice = self._alone if call is None else call.choice
        if choice is None or self.refused or self._gpu.recording():
            return None
        kept = self._graphs(choice)
        shapes = tuple(each.shape for each in inputs)
        found = kept.get(shapes)
        if found is not None:
            return found.run(inputs)
        if not kept.wants(shapes):
            return None
        outputs = self._run(inputs)
        try:
            kept.keep(shapes, record(lambda *own: self._run(list(own)), inputs, self._device, self._gpu))
        except RuntimeError as error:
            self.refused = first_line(error)
            told = f"a segment of AOTInductor runs without CUDA graphs: they cannot be recorded ({self.refused})"
            warnings.warn(told, RuntimeWarning, stacklevel=4)
        return outputs

    def _graphs(self, choice: GraphChoice) -> Graphs:
        """Those of this thread on its current stream."""
        by_stream = self._kept.by_choice.setdefault(choice, {})
        stream = self._gpu.stream(self._device)
        if stream not in by_stream:
            by_stream[stream] = CudaGraphCache(choice.most)
        return by_stream[stream]
