"""Runs of an engine whose sizes were seen before: what can be decided once is not decided again."""

from __future__ import annotations

from collections.abc import Sequence

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
        gpu: Knows the stream that is PyTorch's current one.
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
        self._key, self._stream, self._device = key, stream, ports.device
        self._context, self._graphs, self._turn = context, graphs, turn
        self._current, self._recording = gpu.current(ports.device), gpu.recording
        self._shared = scratch.versions(stream)
        self._version = self._shared.now
        self._reads = tuple((index, name) for index, name in enumerate(ports.inputs) if ports.read[index])
        self._makes = tuple((shape, port.dtype) for shape, port in zip(shapes, ports.manifest.outputs, strict=True))
        self._names = ports.outputs
        several = ports.device.type == "cuda" and torch.cuda.device_count() > 1
        self._gpu_index = ports.device.index if several else None

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
        if self._current() != self._stream or self._recording():
            return None
        if self._gpu_index is not None and torch.cuda.current_device() != self._gpu_index:
            return None
        turn = self._turn
        if turn is None:
            return self._run(inputs, outputs)
        latest = turn.latest
        with latest.lock:
            if latest.stream != self._stream or self._stale():
                return None
            turn.in_a_row += 1
            return self._run(inputs, outputs)

    # Of a call that waits for its result, each function called here is time in which the GPU has nothing to do.
    def _run(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None
    ) -> Sequence[torch.Tensor] | None:
        device = self._device
        if outputs is None:
            outputs = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in self._makes]
        if self._graphs is not None:
            return self._graphs.run(inputs, self._key, self._stream, outputs)
        context = self._context
        if context is None or self._stale() or self._shared.now != self._version:
            return None
        known, tell = context.addresses, context.context.set_tensor_address
        for index, name in self._reads:
            address = inputs[index].data_ptr()
            if known.get(name) != address:
                if address % ALIGNMENT or not address:
                    return None
                tell(name, address)
                known[name] = address
        for name, output in zip(self._names, outputs, strict=True):
            address = output.data_ptr()
            if known.get(name) != address:
                if address % ALIGNMENT or not address:
                    return None
                tell(name, address)
                known[name] = address
        if not context.context.execute_async_v3(self._stream):
            raise run_refused()
        return outputs

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


def can_prepare(ports: Ports) -> bool:
    """Whether runs of an engine can be prepared at all.

    All inputs are on the GPU, and no output has its size from the data or is in the place of an input.
    """
    return not (ports.manifest.waits or ports.manifest.written or any(ports.on_host))


def is_plain(tensor: torch.Tensor, device: torch.device) -> bool:
    """Whether an engine on this GPU reads a tensor where it is."""
    return tensor.is_contiguous() and tensor.device == device
