"""Runs of an engine whose sizes were seen before: what can be decided once is not decided again.

An engine's run launches hundreds of kernels, and by the next call the CPU's caches hold nothing of ours: a call costs
what it touches, each function of PyTorch or Python some microseconds.  So a run is one function with its constants
bound, without methods and attributes in between (``benchmarks/call_overhead.py --cold``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from weakref import ref

import torch

from trtdiag.engine.cuda_graph_cache import Kept
from trtdiag.engine.tensorrt.context import EngineContext, Turn, run_refused
from trtdiag.engine.tensorrt.context_memory import ContextMemory
from trtdiag.engine.tensorrt.cuda_graphs import Casts, EngineGraph, EngineGraphs
from trtdiag.engine.tensorrt.engine_bindings import ALIGNMENT, Key, Ports
from trtdiag.engine.tensorrt.gpu import Gpu, new_memory
from trtdiag.graph.operators import int32_pairs

Outputs = Sequence[torch.Tensor] | None
"""Of a run; ``None`` where nothing has run."""


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
        casts: Where inputs have other dtypes than the engine's, and runs are recorded; else empty.
        pairs: Which inputs may also come as the int64 tensors whose ``int32_pairs`` the engine reads.

    Attributes:
        casts: As given.
        by_address: Whether such tensors, row-major, may come in the place of their pairs: they are where these are.
    """

    def __init__(
        self,
        ports: Ports,
        key: Key,
        shapes: Sequence[tuple[int, ...]],
        gpu: Gpu,
        stream: int,
        context: EngineContext | None,
        scratch: ContextMemory,
        graphs: EngineGraphs | None = None,
        turn: Turn | None = None,
        casts: Casts = (),
        pairs: Collection[int] = (),
    ) -> None:
        self._device, self.casts = ports.device, casts
        self.by_address = graphs is None or bool(pairs)
        self._makes = tuple((shape, port.dtype) for shape, port in zip(shapes, ports.manifest.outputs, strict=True))
        several = ports.device.type == "cuda" and torch.cuda.device_count() > 1
        current, recording = gpu.current(ports.device), gpu.recording
        gpu_index = ports.device.index if several else None
        new = new_memory(ports.device)
        makes = tuple((tuple(shape), _row_major(shape), dtype) for shape, dtype in self._makes)
        shared = scratch.versions(stream)
        version = shared.now
        reads = tuple((index, name) for index, name in enumerate(ports.inputs) if ports.read[index])
        writes = tuple(enumerate(ports.outputs))
        if context is not None:
            known, tell, enqueue = (
                context.addresses,
                context.context.set_tensor_address,
                context.context.execute_async_v3,
            )

        recorded: Callable[[], Kept[EngineGraph] | None] = _nothing

        def run(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None = None) -> Outputs:
            nonlocal recorded
            # The default stream, of the handle 0, cannot be recorded.
            if current() != stream or (stream and recording()):
                return None
            if gpu_index is not None and torch.cuda.current_device() != gpu_index:
                return None
            if graphs is None and (
                context is None  # the others: it was told other sizes since, or is another's, or has old memory
                or context.given_away
                or (context.key is not key and context.key != key)
                or shared.now != version
            ):
                return None
            if outputs is None:
                outputs = []
                for shape, strides, dtype in makes:
                    outputs.append(new(shape, strides, dtype))
            if graphs is not None:
                if (kept := recorded()) is not None:
                    where = [inputs[index].data_ptr() for index, _ in reads]
                    for made in outputs:
                        where.append(made.data_ptr())
                    graph = kept.recording
                    if (replay := graph.direct.get(tuple(where))) is not None:
                        kept.used, graph.misses = True, 0
                        replay()
                        return outputs
                found = graphs.run(_with_pairs(inputs, pairs) if pairs else inputs, key, stream, outputs, casts)
                kept = graphs.kept(key)
                recorded = _nothing if kept is None else ref(kept)
                return found
            for index, name in reads:
                address = inputs[index].data_ptr()
                if known.get(name) != address:
                    if address % ALIGNMENT or not address:
                        return None
                    tell(name, address)
                    known[name] = address
            for index, name in writes:
                address = outputs[index].data_ptr()
                if known.get(name) != address:
                    if address % ALIGNMENT or not address:
                        return None
                    tell(name, address)
                    known[name] = address
            if not enqueue(stream):
                raise run_refused()
            return outputs

        self.call: Callable[..., Outputs] = run if turn is None else _in_turn(run, turn, stream, context, key)

    def __call__(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None = None) -> Outputs:
        """The outputs; ``None`` where something is not as it was: then nothing has run, and the runner must look at it.

        ``call`` is the same without a method around it.

        Args:
            inputs: Like those that it was prepared with.
            outputs: Where to write, row-major, of the engine's shapes and dtypes; new memory where not given.

        Raises:
            InternalError: ``tensorrt-run`` where TensorRT refuses to run.
        """
        return self.call(inputs, outputs)

    def takes(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether it can write into these tensors."""
        return len(outputs) == len(self._makes) and all(
            tensor.is_contiguous()
            and tensor.device == self._device
            and (tuple(tensor.shape), tensor.dtype) == (shape, dtype)
            for tensor, (shape, dtype) in zip(outputs, self._makes, strict=True)
        )


def _nothing() -> Kept[EngineGraph] | None:
    """No recorded runs."""
    return None


def _in_turn(
    run: Callable[..., Outputs], turn: Turn, stream: int, context: EngineContext | None, key: Key
) -> Callable[..., Outputs]:
    """A run in the one context of an engine."""

    def wait(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None = None) -> Outputs:
        latest = turn.latest
        with latest.lock:
            if latest.stream != stream or context is None or context.given_away or context.key != key:
                return None
            made = run(inputs, outputs)
            turn.in_a_row += made is not None
            return made

    return wait


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return torch.empty(shape, device="meta").stride()


def _with_pairs(inputs: Sequence[torch.Tensor], pairs: Collection[int]) -> list[torch.Tensor]:
    """The inputs as the engine reads them."""
    return [
        int32_pairs(tensor) if index in pairs and tensor.dtype is torch.int64 else tensor
        for index, tensor in enumerate(inputs)
    ]


def casts_of(given: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], device: torch.device) -> Casts:
    """The dtypes that inputs have after a cast; empty where none has another, or a cast is not all.

    Args:
        given: What an engine's inputs were before.
        inputs: These, after.
        device: The engine's.
    """
    casts = [
        own.dtype if own.dtype is not tensor.dtype and own.shape == tensor.shape else None
        for tensor, own in zip(given, inputs, strict=True)
    ]
    return casts if any(casts) and all(is_plain(tensor, device) for tensor in given) else ()


def pairs_of(given: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> frozenset[int]:
    """Which of an engine's inputs are ``int32_pairs`` of what they were before."""
    pairs = enumerate(zip(given, inputs, strict=True))
    return frozenset(index for index, (tensor, own) in pairs if own.dim() == tensor.dim() + 1)


def can_prepare(ports: Ports) -> bool:
    """Whether runs of an engine can be prepared at all.

    All inputs are on the GPU, and no output has its size from the data or is in the place of an input.
    """
    return not (ports.manifest.waits or ports.manifest.written or any(ports.on_host))


def is_plain(tensor: torch.Tensor, device: torch.device) -> bool:
    """Whether an engine on this GPU reads a tensor where it is."""
    return tensor.is_contiguous() and tensor.device == device
