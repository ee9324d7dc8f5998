"""The inputs and outputs of an engine, as TensorRT has them, and the names that it is told.

What it says of an engine leads back to the network through these names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.errors import UserError

ALIGNMENT = 256
"""Source: nvinfer1::IExecutionContext::setTensorAddress, "alignment of at least 256 bytes"."""

Key = tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]
"""All that decides the sizes of a run: the shape of each input, and the numbers that TensorRT reads on the host."""


@dataclass(frozen=True)
class Ports:
    """The inputs and outputs of an engine.

    Attributes:
        manifest: What the engine says of itself.
        device: The GPU that it was loaded on.
        inputs: Their names, in the order of the manifest.
        outputs: Their names, in the order of the manifest.
        read: Which inputs TensorRT kept: it leaves out those that nothing reads.
        on_host: Which inputs it reads on the host.
        counted: The dtype of each output whose size the data decides, by name.
        trt: The module ``tensorrt``.
    """

    manifest: Manifest
    device: torch.device
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    read: tuple[bool, ...]
    on_host: tuple[bool, ...]
    counted: Mapping[str, torch.dtype]
    trt: Any

    @classmethod
    def of(cls, trt: Any, engine: Any, manifest: Manifest, device: torch.device) -> Ports:
        """Those of a loaded engine."""
        inputs = tuple(input_name(index, port.name) for index, port in enumerate(manifest.inputs))
        outputs = tuple(output_name(index, port.name) for index, port in enumerate(manifest.outputs))
        names = {engine.get_tensor_name(index) for index in range(engine.num_io_tensors)}
        host = trt.TensorLocation.HOST
        on_host = tuple(name in names and engine.get_tensor_location(name) == host for name in inputs)
        ports = zip(outputs, manifest.outputs, strict=True)
        counted = {name: port.dtype for name, port in ports if manifest.is_counted(port)}
        read = tuple(name in names for name in inputs)
        return cls(manifest, device, inputs, outputs, read, on_host, counted, trt)

    def key(self, inputs: Sequence[torch.Tensor]) -> Key:
        """What decides the sizes of a run with these inputs."""
        values = tuple(int(tensor) for tensor, host in zip(inputs, self.on_host, strict=True) if host)
        return tuple(tensor.shape for tensor in inputs), values

    def in_place(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The inputs that a run writes to."""
        return tuple(inputs[index] for index in self.manifest.written.values())

    def placed(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs where the engine looks for them: numbers on the host or on its GPU.

        Raises:
            UserError: ``tensorrt-device`` for a tensor that is elsewhere.
        """
        return [
            _placed(port, tensor, self.device) if not host else tensor
            for port, tensor, host in zip(self.manifest.inputs, inputs, self.on_host, strict=True)
        ]

    def readable(self, placed: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs row-major and aligned; copied only where they are not."""
        return [tensor if host else readable(tensor) for tensor, host in zip(placed, self.on_host, strict=True)]


def _placed(port: EngineInput, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.device == device:
        return tensor
    if port.is_size:
        # Not copied from the host: a recorded copy would read memory that is gone when it is replayed.
        return torch.full((), int(tensor), dtype=port.dtype, device=device)
    raise UserError(
        f"input {port.name!r} of an engine is on {tensor.device}",
        because=f"the engine was loaded on {device}, and nothing is moved",
        fix=f"move the inputs to {device}",
        reference="tensorrt-device",
    )


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor row-major and aligned; a copy only where it is not."""
    row_major = tensor.contiguous()
    return row_major if row_major.data_ptr() % ALIGNMENT == 0 else row_major.clone()


def input_name(index: int, name: str) -> str:
    """The name of the engine's input of this index; unique also where an input is an output."""
    return f"input {index}: {name}"


def output_name(index: int, name: str) -> str:
    """The name of the engine's output of this index."""
    return f"output {index}: {name}"


def layer_name(node: str, kind: str, number: int) -> str:
    """The name of the layer of this kind and number, from 1, that was written for a node."""
    return f"{node}/{kind}" if number == 1 else f"{node}/{kind}#{number}"


def tensor_name(layer: str, index: int) -> str:
    """The name of the output of this index of a layer."""
    return f"{layer}:{index}"
