"""The only context of an engine, for releases of TensorRT whose contexts cannot share a profile."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import torch

from trtdiag.engine.manifest import Manifest
from trtdiag.engine.tensorrt.context import EngineContext
from trtdiag.engine.tensorrt.engine_bindings import Key, Ports
from trtdiag.engine.tensorrt.gpu import Gpu, Mark
from trtdiag.engine.tensorrt.scratch import Scratch

SHARING = "PROFILE_SHARING_0806"
"""The preview feature of TensorRT 8.6 that lets contexts share a profile; from 10 on they always do.

Source: nvinfer1::PreviewFeature::kPROFILE_SHARING_0806.
"""


def shares_profiles(trt: Any) -> bool:
    """Whether contexts of one engine can share a profile."""
    return hasattr(trt, "ExecutionContextAllocationStrategy") or SHARING in trt.PreviewFeature.__members__


def has_one_context(trt: Any, manifest: Manifest) -> bool:
    """Whether an engine can have one context only: it has one profile, and its sizes vary."""
    return not shares_profiles(trt) and any(dim.min != dim.max for port in manifest.inputs for dim in port.profile)


class OneContext:
    """Runs of one context, which threads and streams take in turns: the GPU waits for the run before, nobody else.

    Args:
        ports: The engine's inputs and outputs.
        scratch: Makes the context, and has memory for it.
        gpu: Orders runs on different streams.
    """

    def __init__(self, ports: Ports, scratch: Scratch, gpu: Gpu) -> None:
        self._ports, self._scratch, self._gpu = ports, scratch, gpu
        self._lock = Lock()
        self._context: EngineContext | None = None
        self._memory: torch.Tensor | None = None
        self._mark: Mark | None = None

    def run(self, given: Sequence[torch.Tensor], key: Key, stream: int) -> tuple[torch.Tensor, ...]:
        """The outputs.

        Raises:
            InternalError: ``tensorrt-run``.
            PlatformError: ``context-memory``.
        """
        with self._lock:
            if self._context is None or self._memory is None:
                self._context = EngineContext(self._ports, self._scratch, stream)
                self._memory = self._scratch.own()
            if self._mark is not None:
                self._gpu.follow(self._mark, self._memory)
            outputs = self._context.run(given, self._memory, key, stream)
            self._mark = self._gpu.mark()
            return outputs
