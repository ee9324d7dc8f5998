"""Whole runs of a program as CUDA graphs, what runs in PyTorch included."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from threading import local
from typing import Any

import torch
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import Graph

from trtdiag.engine.cuda_graph_cache import CudaGraphCache
from trtdiag.engine.cuda_graph_choice import RtxChoice, choosing_graphs
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.recorded_run import RecordedRun, Run, record
from trtdiag.engine.tensorrt.gpu import Gpu
from trtdiag.errors import TrtdiagError
from trtdiag.graph.unbacked_symbols import borne
from trtdiag.runtime.program_inputs import Described
from trtdiag.wording import first_line


class _Kept(local):
    """The graphs of one thread by stream: engines take turns on neither."""

    def __init__(self) -> None:
        self.by_stream: dict[int, CudaGraphCache[Described, RecordedRun]] = {}


class ProgramGraphs:
    """The recorded runs of one program.

    Args:
        run: The program.
        own: What it holds: parameters and buffers.
        rtx: How engines of TensorRT-RTX run.
        most: For how many sets of sizes runs are kept, on each stream of each thread.
        refused: Why it cannot be recorded whole, where that is known; ``why_not_whole`` says it.
        gpu: What records.
        device: The type of device that it runs on.

    Attributes:
        refused: Why it cannot be recorded whole; empty where nothing failed.  Its engines still can, one by one.
    """

    def __init__(
        self,
        run: Run,
        own: Sequence[torch.Tensor],
        rtx: RtxChoice,
        most: int,
        refused: str = "",
        gpu: Gpu | None = None,
        device: str = "cuda",
    ) -> None:
        self._run, self._own, self._most, self._gpu, self._device = run, own, most, gpu or Gpu(), device
        self._rtx = rtx.without_graphs()
        self._kept = _Kept()
        self._warned = False
        self.refused = refused

    def __call__(self, leaves: Sequence[Any], seen: Described) -> list[Any] | None:
        """The flat results; ``None`` where these inputs are to run as always.

        Args:
            leaves: The flat inputs, which ran before.
            seen: All that decides over the run but elements of tensors.
        """
        if self.refused:
            self._warn()
            return None
        devices = {leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)}
        if len(devices) != 1:
            return None
        (device,) = devices
        if device.type != self._device or self._gpu.recording():
            return None
        stream = self._gpu.stream(device)
        kept = self._kept.by_stream.get(stream)
        if kept is None:
            kept = self._kept.by_stream[stream] = CudaGraphCache(self._most)
        found = kept.get(seen)
        if found is not None:
            return found.run(leaves)
        if kept.wants(seen):
            return self._recorded(leaves, seen, kept, device)
        with choosing_graphs(None, self._rtx):  # engines would record what is recorded around them when it comes again
            return list(self._run(*leaves))

    def _recorded(
        self,
        leaves: Sequence[Any],
        seen: Described,
        kept: CudaGraphCache[Described, RecordedRun],
        device: torch.device,
    ) -> list[Any]:
        """Run once, and record the same run on memory that stays."""
        # Engines take part in what is recorded around them, with what they have ready of the run before.
        held: list[tuple[object, object]] = []
        with choosing_graphs(None, self._rtx, held):
            results = list(self._run(*leaves))
            given = _given(results, leaves)
            self.refused = _shared(results, leaves, self._own, given)
            if self.refused:
                return results
            try:
                run = record(self._run, leaves, device, self._gpu, given, held)
            except (RuntimeError, TrtdiagError) as error:
                self.refused = f"it cannot be recorded whole ({first_line(error)})"
                return results
        kept.keep(seen, run)
        return results

    def _warn(self) -> None:
        """Tell, once for a program, that what was asked for cannot be had."""
        if not self._warned:
            self._warned = True
            told = f"a program is not recorded as one CUDA graph, but engine by engine: {self.refused}"
            warnings.warn(told, RuntimeWarning, stacklevel=5)


def why_not_whole(
    signature: ExportGraphSignature, graph: Graph, manifests: Sequence[Manifest] = (), in_place: int = 0
) -> str:
    """Why whole runs of a program cannot be recorded; empty where nothing is known against it.

    Args:
        signature: The program's, of a functional graph.
        graph: That graph.
        manifests: Of its engines.
        in_place: How many inputs and buffers its engines write to.
    """
    if signature.user_inputs_to_mutate or in_place:
        return "it writes to its inputs"
    if borne(graph) or any(manifest.waits for manifest in manifests):
        return "the data decides a size in it, and a graph has fixed sizes"
    return ""


def _given(results: Sequence[Any], inputs: Sequence[Any]) -> dict[int, int]:
    """The results that are inputs."""
    places = {id(tensor): index for index, tensor in enumerate(inputs) if isinstance(tensor, torch.Tensor)}
    return {index: places[id(result)] for index, result in enumerate(results) if id(result) in places}


def _shared(results: Sequence[Any], inputs: Sequence[Any], held: Sequence[torch.Tensor], given: dict[int, int]) -> str:
    """Why copies in the place of results would be seen: some share memory; empty where none do."""
    taken = {tensor.untyped_storage().data_ptr() for tensor in (*inputs, *held) if isinstance(tensor, torch.Tensor)}
    for index, result in enumerate(results):
        if isinstance(result, torch.Tensor) and index not in given:
            place = result.untyped_storage().data_ptr()
            if place and place in taken:
                return "its results share memory with each other, or with what it is given or holds"
            taken.add(place)
    return ""
