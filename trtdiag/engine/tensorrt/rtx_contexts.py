"""Execution contexts of TensorRT-RTX, which compiles kernels for the GPU when an engine first runs there.

Written against the API of 1.4 and 1.7 and tested for its names and arguments; it never ran, for want of a GPU of the
generations that TensorRT-RTX takes.
Source: nvinfer1::IRuntimeConfig and IRuntimeCache, TensorRT-RTX 1.7.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary, finalize

import torch

from trtdiag.engine.cuda_graph_choice import RtxChoice, chosen_graphs, chosen_rtx
from trtdiag.engine.gil_lock import TURNS
from trtdiag.engine.tensorrt.cache_files import not_kept, read_cache, write_cache
from trtdiag.engine.tensorrt.context_memory import ContextMemory

_LOGGER = logging.getLogger("trtdiag.tensorrt.runtime_cache")


class RtxContextMemory(ContextMemory):
    """Makes contexts that run as the program that is running chose.

    Args:
        trt: The module ``tensorrt_rtx``.
        engine: The engine.
        device: The GPU that it was loaded on.
    """

    def __init__(self, trt: Any, engine: Any, device: torch.device) -> None:
        super().__init__(trt, engine, device)
        self._trt = trt
        # Contexts must not outlive the cache that they were made with.
        self._cache = cache(lambda name: _kernel_cache(Path(name).expanduser().absolute(), device))

    def variant(self) -> RtxChoice:
        """What the program chose; where trtdiag records its runs, TensorRT-RTX is not to record them once more."""
        choice = chosen_rtx()
        return choice if chosen_graphs() is None else choice.without_graphs()

    def make(self) -> Any:
        """See ``ContextMemory``.

        Raises:
            UserError: ``runtime-cache`` where there is something else than a file that can be read.
        """
        choice, trt = self.variant(), self._trt
        with TURNS.alone():
            config = self._engine.create_runtime_config()
            config.set_execution_context_allocation_strategy(self._strategy)
            graphs = trt.CudaGraphStrategy
            config.cuda_graph_strategy = graphs.WHOLE_GRAPH_CAPTURE if choice.cuda_graphs else graphs.DISABLED
            if choice.kernel_specialization is not None:
                strategies = trt.DynamicShapesKernelSpecializationStrategy
                strategy = getattr(strategies, choice.kernel_specialization.upper())
                config.dynamic_shapes_kernel_specialization_strategy = strategy
            if choice.cache is not None:
                self._cache(choice.cache).give(config)
            return self._engine.create_execution_context(config)


class _KernelCache:
    """Compiled kernels that all engines of one GPU share, read from a file and written back to it.

    It is written when the last engine that uses it goes, or Python ends.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        self._cache: Any = None

    def give(self, config: Any) -> None:
        """Let a context that is made with this configuration use it."""
        with self._lock:
            if self._cache is None:
                content = read_cache(self._path, "runtime")
                cache = config.create_runtime_cache()
                if content and not cache.deserialize(content):
                    _LOGGER.info("%s is of another GPU, driver or release, and is replaced", self._path)
                finalize(self, _keep, cache, self._path, content)
                self._cache = cache
            if not config.set_runtime_cache(self._cache):
                _LOGGER.warning("TensorRT-RTX does not take the runtime cache %s", self._path)


_OPEN: WeakValueDictionary[tuple[Path, torch.device], _KernelCache] = WeakValueDictionary()
_OPENING = Lock()


def _kernel_cache(path: Path, device: torch.device) -> _KernelCache:
    with _OPENING:
        found = _OPEN.get((path, device))
        if found is None:
            found = _OPEN[path, device] = _KernelCache(path)
        return found


def _keep(cache: Any, path: Path, before: bytes) -> None:
    """Write the kernels; of two processes that do so the later one wins, which costs the other's kernels alone.

    What cannot be written is only said in the log: the kernels are compiled again.
    """
    made = cache.serialize()
    if made is None:
        _LOGGER.warning("TensorRT-RTX gives no kernels to keep in %s", path)
        return
    content = bytes(made)
    if content == before:
        return
    try:
        write_cache(path, content)
    except OSError as error:
        not_kept(_LOGGER, "kernels", path, error)
