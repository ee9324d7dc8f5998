"""Scratch memory of engines, taken from PyTorch: execution contexts that never run at once share it."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Hashable
from threading import local
from typing import Any
from weakref import ref

import torch

from trtdiag.engine.gil_lock import TURNS
from trtdiag.errors import PlatformError
from trtdiag.options import MIB

_SMALLEST_BYTES = 512
"""What PyTorch takes for the smallest tensor, too; an address is wanted even where no memory is."""


class Versions:
    """How often shared memory was taken anew: contexts that were given some before may be given other."""

    def __init__(self) -> None:
        self.now = 0


class _Shared(local):
    """The memory of one thread by device and stream, for as long as a context has it."""

    def __init__(self) -> None:
        self.by_stream: dict[tuple[torch.device, int], ref[torch.Tensor]] = {}
        self.versions: defaultdict[tuple[torch.device, int], Versions] = defaultdict(Versions)


_SHARED = _Shared()


class ContextMemory:
    """Makes contexts of one engine that bring no scratch memory, and gives them some.

    What one thread puts onto one stream runs one after the other: all engines that it runs there, with all their
    contexts and recorded graphs, share the memory of the one that needs most.

    Args:
        trt: The module ``tensorrt``.
        engine: The engine.
        device: The GPU that it was loaded on.

    Attributes:
        size_bytes: What a context needs while it runs.
    """

    def __init__(self, trt: Any, engine: Any, device: torch.device) -> None:
        self._engine, self._device = engine, device
        strategies = getattr(trt, "ExecutionContextAllocationStrategy", None)
        self._strategy = None if strategies is None else strategies.USER_MANAGED
        self.size_bytes = max(scratch_bytes(engine), _SMALLEST_BYTES)

    def variant(self) -> Hashable:
        """What contexts that are made now differ in from others of the engine; a program takes none of another's."""
        return None

    def make(self) -> Any:
        """A context that must be given scratch memory before it runs; ``None`` where TensorRT makes none."""
        with TURNS.alone():
            if self._strategy is None:
                return self._engine.create_execution_context_without_device_memory()
            return self._engine.create_execution_context(self._strategy)

    def shared(self, stream: int) -> torch.Tensor:
        """The memory of this thread for a stream, PyTorch's current one: large enough for this engine.

        Raises:
            PlatformError: ``context-memory``.
        """
        known = _SHARED.by_stream.get((self._device, stream))
        memory = None if known is None else known()
        if memory is None or memory.nbytes < self.size_bytes:
            memory = self.own()
            _SHARED.by_stream[self._device, stream] = ref(memory)
            _SHARED.versions[self._device, stream].now += 1
        return memory

    def versions(self, stream: int) -> Versions:
        """Of the memory that this thread shares on a stream."""
        return _SHARED.versions[self._device, stream]

    def own(self) -> torch.Tensor:
        """Memory for this engine that it shares with none.

        Raises:
            PlatformError: ``context-memory``.
        """
        try:
            return torch.empty(self.size_bytes, dtype=torch.uint8, device=self._device)
        except torch.OutOfMemoryError as error:
            raise PlatformError(
                "the GPU has too little memory left to run an engine",
                because=f"it needs {self.size_bytes / MIB:,.0f} MiB while it runs, whatever the sizes of its inputs:"
                f" {str(error).partition(' If reserved')[0]}",
                fix="free GPU memory (nvidia-smi shows who holds it), or declare smaller ranges: an engine takes memory"
                " for its greatest sizes",
                reference="context-memory",
            ) from error

    def give(self, context: Any, memory: torch.Tensor) -> None:
        """Let a context use memory, of ``size_bytes`` or more, that stays until it is given other."""
        address = memory.data_ptr()
        if self._strategy is not None:
            context.set_device_memory(address, memory.nbytes)
            return
        try:
            context.device_memory = address
        except TypeError:  # TensorRT 8.6 documents a capsule and takes a number; releases before it were as documented
            context.device_memory = _capsule(address)


def _capsule(address: int) -> Any:
    """An address in an object of Python for addresses."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, None, None)


def scratch_bytes(engine: Any) -> int:
    """The memory that a run of an engine takes beside weights, inputs and outputs."""
    newer = getattr(engine, "device_memory_size_v2", None)
    return int(engine.device_memory_size if newer is None else newer)
