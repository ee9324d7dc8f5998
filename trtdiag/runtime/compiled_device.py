"""A compiled program on the device that its engines run on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from trtdiag.errors import UserError
from trtdiag.frontend.move_to_device import on_device, program_device
from trtdiag.frontend.node_origins import stack_of
from trtdiag.graph.operators import has_kernel, operator_of
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.partition.facts import Fallback
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


def require_kernels(lowered: Lowered, fallback: Sequence[Fallback], device: str) -> None:
    """Refuse a program of which an op stays with PyTorch that runs on other devices only.

    Such ops come from decomposing on a device: attention on the CPU is another op there than on a GPU.

    Args:
        lowered: What was partitioned.
        fallback: What stays with PyTorch.
        device: The type of device where that is going to run.

    Raises:
        UserError: ``op-device``, naming the op, its source line, and why it is in no engine.
    """
    nodes = {node.name: node for node in lowered.graph_module.graph.nodes}
    for entry in fallback:
        op = operator_of(nodes[entry.node])
        if op is None or not entry.computes or has_kernel(op, device):
            continue
        frame = stack_of(lowered.origins, entry.node).best
        raise UserError(
            f"{entry.op} cannot run on {device}{'' if frame is None else f' ({frame})'}",
            because=f"it was made for another device, and stays with PyTorch: {entry.limit.why}",
            fix=f"export the model on {device}, or without run_decompositions()",
            reference="op-device",
        )


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
