"""The engines of a compiled program, found in its graph."""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from trtdiag.engine.manifest import Manifest
from trtdiag.engine.manifest_text import manifest_from_text
from trtdiag.errors import ArtifactError
from trtdiag.files.memory_map import MappedFile
from trtdiag.graph.inputs import held_tensors, mapped_files
from trtdiag.runtime.custom_op import EXECUTE_ENGINE


@dataclass(frozen=True)
class EngineNode:
    """One call of an engine: its node, the engine's bytes and their name, and the engine's manifest.

    The bytes are a buffer, or a constant where a compiled program was called in what was exported.
    """

    node: Node
    buffer: str
    engine: torch.Tensor
    manifest: Manifest


def engine_nodes(exported: ExportedProgram) -> tuple[EngineNode, ...]:
    """Every call of an engine, in the order of execution.

    Raises:
        ArtifactError: ``engine-call`` where a call does not name an engine's bytes and a manifest.
    """
    signature = exported.graph_signature
    names = {**signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers}
    found = []
    for node in exported.graph.find_nodes(op="call_function", target=EXECUTE_ENGINE):
        _, engine, text = node.args
        name = names.get(engine.name) if isinstance(engine, Node) else None
        blob: Any = exported.state_dict.get(name, exported.constants.get(name))
        if name is None or not isinstance(text, str) or not _is_engine(blob):
            raise ArtifactError(
                f"{node.name} calls no engine of this program",
                because="its bytes are no tensor of the program, or its manifest is no text",
                fix="compile the program again",
                reference="engine-call",
            )
        manifest = manifest_from_text(text)
        _check_edge(node, manifest)
        found.append(EngineNode(node, name, blob, manifest))
    return tuple(found)


def files_in_use(exported: ExportedProgram) -> tuple[MappedFile, ...]:
    """The files that calls of a program read weights from; engines that run elsewhere than on the CPU have theirs.

    Raises:
        ArtifactError: As ``engine_nodes``.
    """
    there = {id(found.engine) for found in engine_nodes(exported) if found.manifest.device != "cpu"}
    files = mapped_files(tensor for tensor in held_tensors(exported) if id(tensor) not in there)
    return tuple(file for file in files if file.file)


def _check_edge(node: Node, manifest: Manifest) -> None:
    """The call gives and takes as many tensors as the manifest says."""
    given, outputs = node.args[0], len(manifest.outputs)
    taken = [user.args[1] for user in node.users if user.target is operator.getitem]
    fits = isinstance(given, (list, tuple)) and len(given) == len(manifest.inputs)
    if not fits or not all(type(index) is int and 0 <= index < outputs for index in taken):
        raise ArtifactError(
            f"{node.name} calls an engine with other inputs or outputs than it has",
            because=f"its manifest says {len(manifest.inputs)} inputs and {outputs} outputs",
            fix="compile the program again",
            reference="engine-call",
        )


def _is_engine(blob: object) -> bool:
    return isinstance(blob, torch.Tensor) and blob.dtype is torch.uint8 and blob.dim() == 1


def split_nodes(
    exported: ExportedProgram, own: Collection[str]
) -> tuple[tuple[EngineNode, ...], tuple[EngineNode, ...]]:
    """The calls of engines by whether their bytes are among the ``own``: the rest are of an earlier compilation.

    Raises:
        ArtifactError: As ``engine_nodes``.
    """
    nodes = engine_nodes(exported)
    return tuple(node for node in nodes if node.buffer in own), tuple(node for node in nodes if node.buffer not in own)
