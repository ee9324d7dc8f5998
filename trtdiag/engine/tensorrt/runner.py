"""Runs an engine on the GPU that its inputs are on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import local
from typing import Any

import torch

from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.engine.tensorrt.names import input_name, output_name
from trtdiag.errors import InternalError, PlatformError, UserError

_MOST_CONTEXTS = 4
"""Own choice: streams that one thread runs one engine on; each context holds the engine's scratch memory."""
_ALIGNMENT = 256
"""Source: nvinfer1::IExecutionContext::setTensorAddress, "alignment of at least 256 bytes"."""

Stream = Callable[[torch.device], int]


def current_stream(device: torch.device) -> int:
    """The handle of PyTorch's current stream on a GPU."""
    return int(torch.cuda.current_stream(device).cuda_stream)


@dataclass
class _Context:
    """An execution context with the shapes that it was told last, and the outputs' that follow from them."""

    context: Any
    shapes: tuple[tuple[int, ...], ...] | None = None
    outputs: tuple[tuple[int, ...], ...] = ()
    host_values: tuple[int, ...] = ()


@dataclass
class _Contexts(local):
    """The contexts of one thread by stream: two streams must not share scratch memory."""

    by_stream: OrderedDict[int, _Context] = field(default_factory=OrderedDict)


class EngineRunner:
    """A loaded engine.

    Each thread has its own execution contexts, one for each stream.  Work goes to PyTorch's current stream, nothing is
    synchronised, and outputs are PyTorch's own memory.

    Args:
        trt: The module ``tensorrt``.
        engine: The deserialised engine.
        manifest: What it takes and gives.
        device: The GPU that it was loaded on.
        alive: What must live as long as the engine.
        stream: Gives the stream to run on.
    """

    def __init__(
        self,
        trt: Any,
        engine: Any,
        manifest: Manifest,
        device: torch.device,
        alive: object = None,
        stream: Stream = current_stream,
    ) -> None:
        self._engine, self._manifest, self._device = engine, manifest, device
        self._alive, self._stream = alive, stream
        self._contexts = _Contexts()
        self._inputs = tuple(input_name(index, port.name) for index, port in enumerate(manifest.inputs))
        self._outputs = tuple(output_name(index, port.name) for index, port in enumerate(manifest.outputs))
        host = trt.TensorLocation.HOST
        names = {engine.get_tensor_name(index) for index in range(engine.num_io_tensors)}
        # TensorRT leaves out inputs that nothing reads.
        self._read = tuple(name in names for name in self._inputs)
        self._on_host = tuple(name in names and engine.get_tensor_location(name) == host for name in self._inputs)
        self._several = device.type == "cuda" and torch.cuda.device_count() > 1
        self._nothing = torch.empty(_ALIGNMENT, dtype=torch.uint8, device=device)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The outputs.

        Raises:
            UserError: ``tensorrt-device``.
            InternalError: ``tensorrt-run`` where TensorRT refuses to run.
            PlatformError: ``context-memory``.
        """
        with torch.cuda.device(self._device) if self._several else nullcontext():
            return self._run(inputs)

    def _run(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        given = [self._ready(*row) for row in zip(self._manifest.inputs, inputs, self._on_host, strict=True)]
        stream = self._stream(self._device)
        own = self._context(stream)
        context = own.context
        # Addresses first: what is on the host is read when shapes are inferred.
        for name, tensor, read in zip(self._inputs, given, self._read, strict=True):
            if read:
                context.set_tensor_address(name, tensor.data_ptr() or self._nothing.data_ptr())
        self._tell_shapes(own, given)
        outputs = tuple(
            torch.empty(shape, dtype=port.dtype, device=self._device)
            for port, shape in zip(self._manifest.outputs, own.outputs, strict=True)
        )
        for name, tensor in zip(self._outputs, outputs, strict=True):
            context.set_tensor_address(name, tensor.data_ptr() or self._nothing.data_ptr())
        if not context.execute_async_v3(stream):
            raise self._failed("TensorRT does not run the engine")
        # Copies made above may go: PyTorch reuses their memory on this stream only, after the engine has read it.
        return outputs

    def _ready(self, port: EngineInput, tensor: torch.Tensor, on_host: bool) -> torch.Tensor:
        """The input where the engine reads it, row-major and aligned."""
        if port.is_size:
            return tensor if on_host else tensor.to(self._device, non_blocking=True)
        if tensor.device != self._device:
            raise UserError(
                f"input {port.name!r} of an engine is on {tensor.device}",
                because=f"the engine was loaded on {self._device}, and nothing is moved",
                fix=f"move the inputs to {self._device}",
                reference="tensorrt-device",
            )
        row_major = tensor.contiguous()
        return row_major if row_major.data_ptr() % _ALIGNMENT == 0 else row_major.clone()

    def _context(self, stream: int) -> _Context:
        known = self._contexts.by_stream
        if stream not in known:
            made = self._engine.create_execution_context()
            if made is None:
                raise PlatformError(
                    "TensorRT cannot prepare an engine for running",
                    because="it gave no execution context; most often the GPU has too little memory left",
                    fix="free GPU memory, or compile for smaller sizes",
                    reference="context-memory",
                )
            known[stream] = _Context(made)
            while len(known) > _MOST_CONTEXTS:
                known.popitem(last=False)
        known.move_to_end(stream)
        return known[stream]

    def _tell_shapes(self, own: _Context, given: Sequence[torch.Tensor]) -> None:
        """Tell the context sizes that it does not know yet, and read the outputs'."""
        shapes = tuple(tuple(tensor.shape) for tensor in given)
        values = tuple(int(tensor) for tensor, host in zip(given, self._on_host, strict=True) if host)
        if own.shapes == shapes and own.host_values == values:
            return
        own.shapes = None
        for name, shape, host, read in zip(self._inputs, shapes, self._on_host, self._read, strict=True):
            if read and not host and not own.context.set_input_shape(name, shape):
                raise self._failed(f"TensorRT does not take the shape {shape} of {name!r}")
        missing = own.context.infer_shapes()
        if missing:
            raise self._failed(f"TensorRT cannot tell the sizes of its outputs without {', '.join(missing)}")
        own.outputs = tuple(tuple(own.context.get_tensor_shape(name)) for name in self._outputs)
        if any(size < 0 for shape in own.outputs for size in shape):
            raise self._failed(f"TensorRT does not know the sizes of its outputs: {own.outputs}")
        own.shapes, own.host_values = shapes, values

    def _failed(self, message: str) -> InternalError:
        return InternalError(
            message,
            because="the sizes were checked against those that it was built for; TensorRT's log says more",
            fix="compile the program again; report this with the model if it comes back",
            reference="tensorrt-run",
        )
