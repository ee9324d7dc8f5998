"""A compiled program on the device that its engines run on."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from trtdiag.capture.on_device import on_device, program_device
from trtdiag.runtime.engine_nodes import engine_nodes


def on_engine_device(compiled: ExportedProgram, device: str) -> ExportedProgram:
    """The program with all that PyTorch keeps and computes on the device of the engines; the given one where it is.

    Args:
        compiled: What ``assemble`` made; it stays as it is.
        device: The type of the device that the engines run on.

    Raises:
        UserError: ``program-devices`` where its inputs and weights are on several devices.
    """
    return on_device(compiled, device, stays=_on_the_host(compiled))


def compiled_device(compiled: ExportedProgram) -> torch.device | None:
    """Where the inputs of a compiled program must be; ``None`` where it has none.

    Raises:
        UserError: ``program-devices`` where they must be on several devices.
    """
    return program_device(compiled, but=_on_the_host(compiled))


def _on_the_host(compiled: ExportedProgram) -> frozenset[str]:
    """Engines, whose bytes are read there, and the tensors without elements that carry numbers to them."""
    found: set[str] = set()
    for call in engine_nodes(compiled):
        inputs, engine, _ = call.node.args
        carriers = [given for given, port in zip(inputs, call.manifest.inputs, strict=True) if port.is_size]  # type: ignore[arg-type]  # a list
        found.update(node.name for node in (engine, *carriers) if isinstance(node, Node))
    return frozenset(found)
