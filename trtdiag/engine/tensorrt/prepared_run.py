"""Runs of an engine whose sizes were seen before: what can be decided once is not decided again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch

from trtdiag.engine.tensorrt.context import EngineContext, Turn, run_refused
from trtdiag.engine.tensorrt.cuda_graphs import EngineGraphs
from trtdiag.engine.tensorrt.engine_bindings import ALIGNMENT, Key, Ports
from trtdiag.engine.tensorrt.gpu import Gpu
from trtdiag.engine.tensorrt.scratch import Scratch


class PreparedRun:
    """Runs an engine for inputs that are like those of an earlier run of this thread in all but their memory.

    Like means: the same sizes, strides, dtypes and device.  ``can_prepare`` and ``is_plain`` say where there is one.

    Args:
        ports: The engine's inputs and outputs.
        key: What decides the sizes.
        shapes: Those of the outputs.
        gpu: Gives the stream.
        stream: Where it ran.
        context: Ran with these sizes; not needed where runs are recorded.
        scratch: Has memory for the context.
        graphs: Recorded runs, where the program asks for them.
        turn: Of an engine that has one context.
    """

    def __init__(
        self,
        ports: Ports,
        key: Key,
        shapes: Sequence[tuple[int, ...]],
        gpu: Gpu,
        stream: int,
        context: EngineContext | None,
        scratch: Scratch,
        graphs: EngineGraphs | None = None,
        turn: Turn | None = None,
    ) -> None:
        self._key, self._gpu, self._stream, self._device = key, gpu, stream, ports.device
        self._context, self._scratch, self._graphs, self._turn = context, scratch, graphs, turn
        self._lock = nullcontext() if turn is None else turn.lock
        self._reads = tuple((index, name) for index, name in enumerate(ports.inputs) if ports.read[index])
        self._makes = tuple((shape, port.dtype) for shape, port in zip(shapes, ports.manifest.outputs, strict=True))
        self._names = ports.outputs
        self._several = ports.device.type == "cuda" and torch.cuda.device_count() > 1

    def __call__(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None = None
    ) -> Sequence[torch.Tensor] | None:
        """The outputs; ``None`` where something is not as it was: then nothing has run, and the runner must look at it.

        Args:
            inputs: Like those that it was prepared with.
            outputs: Where to write, row-major, of the engine's shapes and dtypes; new memory where not given.

        Raises:
            InternalError: ``tensorrt-run`` where TensorRT refuses to run.
        """
        stream = self._stream
        if self._gpu.stream(self._device) != stream or self._gpu.recording():
            return None
        if self._several and torch.cuda.current_device() != self._device.index:
            return None
        with self._lock:
            turn = self._turn
            if turn is not None:
                if turn.stream != stream or self._stale():
                    return None
                turn.in_a_row += 1
            if outputs is None:
                outputs = [torch.empty(shape, dtype=dtype, device=self._device) for shape, dtype in self._makes]
            if self._graphs is not None:
                return self._graphs.run(inputs, self._key, stream, outputs)
            return outputs if self._ran(inputs, outputs, stream) else None

    def takes(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether it can write into these tensors."""
        return len(outputs) == len(self._makes) and all(
            tensor.is_contiguous()
            and tensor.device == self._device
            and (tuple(tensor.shape), tensor.dtype) == (shape, dtype)
            for tensor, (shape, dtype) in zip(outputs, self._makes, strict=True)
        )

    def _stale(self) -> bool:
        """Whether the context was told other sizes since, or is another's."""
        context = self._context
        if context is None or context.given_away:
            return True
        return context.key is not self._key and context.key != self._key

    def _ran(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], stream: int) -> bool:
        context = self._context
        if context is None or self._stale():
            return False
        for index, name in self._reads:
            address = inputs[index].data_ptr()
            if address % ALIGNMENT or not address:
                return False
            context.put_address(name, address)
        for name, output in zip(self._names, outputs, strict=True):
            address = output.data_ptr()
            if address % ALIGNMENT or not address:
                return False
            context.put_address(name, address)
        if self._turn is None:
            context.take(self._scratch.shared(stream))
        if not context.context.execute_async_v3(stream):
            raise run_refused()
        return True


def can_prepare(ports: Ports) -> bool:
    """Whether runs of an engine can be prepared at all.

    All inputs are on the GPU, and no output has its size from the data or is in the place of an input.
    """
    return not (ports.manifest.waits or ports.manifest.written or any(ports.on_host))


def is_plain(tensor: torch.Tensor, device: torch.device) -> bool:
    """Whether an engine on this GPU reads a tensor where it is."""
    return tensor.is_contiguous() and tensor.device == device
