"""What an engine asks of PyTorch's CUDA: the current stream, to record work as a graph, and which memory is free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from threading import Lock
from typing import Any

import torch

from trtdiag.graph.garbage_collection import uncollected
from trtdiag.options import MIB

Work = Callable[[int], None]
"""Puts work onto the stream of this handle."""
Replay = Callable[[], None]
"""Puts recorded work onto PyTorch's current stream."""

Mark = Any
"""A place in the work of a stream."""

_RAW_STREAM: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # noqa: SLF001
"""The handle alone, as inductor's own code asks for it: an object around it takes ten times as long to make."""

_RECORDING = Lock()
"""All recordings of a device share a stream, and what another thread put there would become part of the graph."""


class Gpu:
    """PyTorch's CUDA, as far as engines need it."""

    def stream(self, device: torch.device) -> int:
        """The handle of PyTorch's current stream on a GPU."""
        return self.current(device)()

    def current(self, device: torch.device) -> Callable[[], int]:
        """What tells the handle of PyTorch's current stream on a GPU."""
        if _RAW_STREAM is not None and device.index is not None:
            return partial(_RAW_STREAM, device.index)
        return lambda: int(torch.cuda.current_stream(device).cuda_stream)

    def recording(self) -> bool:
        """Whether PyTorch's current stream is being captured."""
        return torch.cuda.is_current_stream_capturing()

    def record(self, device: torch.device, work: Work) -> Replay:
        """A CUDA graph of the work.

        Raises:
            RuntimeError: CUDA cannot record it.
        """
        graph = torch.cuda.CUDAGraph()
        stream = _recording_stream(device.index or 0)
        # What PyTorch allocates for all graphs of a process when the first is recorded must be writable in every mode.
        with _RECORDING, torch.inference_mode(False), torch.cuda.stream(stream):
            # Other threads may allocate meanwhile; what this thread may not do while it records is an error.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                with uncollected():
                    work(int(stream.cuda_stream))
            except BaseException:  # after it CUDA only says that there was one
                with suppress(RuntimeError):
                    _end(graph, device)
                raise
            _end(graph, device)
        return graph.replay

    def mark(self, device: torch.device, stream: int) -> Mark:
        """A CUDA event behind all that is on a stream so far.

        Args:
            device: The stream's GPU.
            stream: Its handle.
        """
        event: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # as torch is
        event.record(torch.cuda.ExternalStream(stream, device))  # type: ignore[no-untyped-call]  # as torch is
        return event

    def follow(self, mark: Mark, memory: torch.Tensor) -> None:
        """Let PyTorch's current stream wait for an event; nothing else waits."""
        stream = torch.cuda.current_stream(memory.device)
        stream.wait_event(mark)
        memory.record_stream(stream)


def _end(graph: torch.cuda.CUDAGraph, device: torch.device) -> None:
    """End a recording.

    Raises:
        RuntimeError: CUDA refused it.
    """
    try:
        graph.capture_end()
    except RuntimeError:
        _end_generators_recording(device)
        raise


def _end_generators_recording(device: torch.device) -> None:
    """Let PyTorch make random numbers on a GPU again: it refuses them after a recording that CUDA refused.

    Up to 2.13 at least it takes its generator for recorded until a recording ends well: ``CUDAGraph::capture_end`` does
    not come as far as the generator where CUDA reports an error.
    """
    with suppress(RuntimeError):  # what CUDA refused before is what is told
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        torch.zeros(1, device=device)  # PyTorch warns of an empty one
        graph.capture_end()


@cache
def _recording_stream(index: int) -> torch.cuda.Stream:
    """A stream that no one else has: PyTorch hands out few, in turn, and seldom those of high priority."""
    made: torch.cuda.Stream = torch.cuda.Stream(index, priority=-1)  # type: ignore[no-untyped-call]  # as torch is
    return made


def new_memory(device: torch.device) -> Callable[[Sequence[int], Sequence[int], torch.dtype], torch.Tensor]:
    """What makes tensors on the device, the current one of its type, from their shape, strides and dtype.

    As inductor's own code makes them where PyTorch has that: without its dispatcher, which is half of the time.
    """
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)  # noqa: SLF001
    direct = getattr(guards, f"_empty_strided_{device.type}", None) if device.type in ("cpu", "cuda") else None
    if direct is not None:
        return direct  # type: ignore[no-any-return]
    return lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=device)


def free_mib() -> int | None:
    """The memory of the current GPU that nobody has; ``None`` where it does not tell."""
    try:
        return int(torch.cuda.mem_get_info()[0]) // MIB
    except (RuntimeError, AssertionError):  # too little even to ask, or no GPU
        return None
