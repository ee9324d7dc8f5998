"""Scratch memory of execution contexts, taken from PyTorch: contexts that never run at once share it."""

from __future__ import annotations

import ctypes
from typing import Any

import torch


class Scratch:
    """Makes contexts of one engine that bring no scratch memory, and gives them some.

    Args:
        trt: The module ``tensorrt``.
        engine: The engine.

    Attributes:
        size_bytes: What a context needs while it runs.
    """

    def __init__(self, trt: Any, engine: Any) -> None:
        self._engine = engine
        strategies = getattr(trt, "ExecutionContextAllocationStrategy", None)
        self._strategy = None if strategies is None else strategies.USER_MANAGED
        # TensorRT 8.6 has the first of the two sizes only, 11 the second only.
        size = engine.device_memory_size if strategies is None else engine.device_memory_size_v2
        self.size_bytes = int(size)

    def make(self) -> Any:
        """A context that must be given scratch memory before it runs; ``None`` where TensorRT makes none."""
        if self._strategy is None:
            return self._engine.create_execution_context_without_device_memory()
        return self._engine.create_execution_context(self._strategy)

    def give(self, context: Any, memory: torch.Tensor) -> None:
        """Let a context use memory, of ``size_bytes`` or more, that stays until it is given other."""
        if self._strategy is None:
            context.device_memory = _capsule(memory.data_ptr())
        else:
            context.set_device_memory(memory.data_ptr(), memory.nbytes)


def _capsule(address: int) -> Any:
    """An address as TensorRT 8.6 takes it."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, None, None)
