"""Engines that a program had before it was compiled: they stay as they are, among those that are built."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch.export import ExportedProgram

from trtdiag.errors import UserError
from trtdiag.runtime.engine_cache import engine_bytes
from trtdiag.runtime.engine_nodes import EngineNode, engine_nodes, split_nodes


def refuse_on_other_devices(exported: ExportedProgram, device: str) -> None:
    """Refuse a program with engines that run on another type of device than those that are going to be built.

    Raises:
        UserError: ``engines-elsewhere``.
    """
    for node in engine_nodes(exported):
        if node.manifest.device != device:
            raise UserError(
                f"the program has engines for {node.manifest.device}, and the others would be for {device}",
                because=f"{node.buffer} was compiled by the backend {node.manifest.backend!r}, and it stays as it is",
                fix=f"compile with the backend {node.manifest.backend!r}, or compile the original of the program",
                reference="engines-elsewhere",
            )


def all_networks(exported: ExportedProgram, own: Collection[str], networks: Sequence[bytes]) -> tuple[bytes, ...]:
    """The network of every engine of a program, in the order of execution.

    Args:
        exported: The program.
        own: The names of the bytes of the engines that were built now.
        networks: Their networks.

    Raises:
        UserError: ``networks-not-kept`` where an engine was there before, and its bytes are not its network.
    """
    built = dict(zip((node.buffer for node in split_nodes(exported, own)[0]), networks, strict=True))
    return tuple(built.get(node.buffer) or _network(node) for node in engine_nodes(exported))


def _network(node: EngineNode) -> bytes:
    if node.manifest.backend != "reference":
        raise UserError(
            f"the network of the engine {node.buffer} is not at hand",
            because="it was built in an earlier compilation, of which the program has the engine alone",
            fix="compile the original of the program with portable=True, or this program without it",
            reference="networks-not-kept",
        )
    return bytes(engine_bytes(node.engine))  # the engines of this backend are their networks
