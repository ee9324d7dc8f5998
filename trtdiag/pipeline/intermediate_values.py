"""A compiled program as what can be partitioned again, and what its nodes give for the usual inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Interpreter, Node

from trtdiag.frontend.program import OpOrigin
from trtdiag.graph.aliases import written_nodes
from trtdiag.lower.lowered_facts import Lowered


def as_lowered(exported: ExportedProgram, origins: Mapping[str, OpOrigin]) -> Lowered:
    """A compiled program as what can be partitioned; what its calls change is a copy.

    Args:
        exported: The program.
        origins: Source line and module of its ops.
    """
    signature = exported.graph_signature
    known = {**exported.constants, **exported.state_dict}
    changed = {spec.target for spec in signature.output_specs if spec.kind is OutputKind.BUFFER_MUTATION}
    in_place = {node.name for node in written_nodes(exported.graph)}
    tensors = {spec.arg.name: known[spec.target] for spec in signature.input_specs if spec.target in known}
    for spec in signature.input_specs:
        value = tensors.get(spec.arg.name)
        if isinstance(value, torch.Tensor) and (spec.target in changed or spec.arg.name in in_place):
            tensors[spec.arg.name] = value.detach().clone()
    return Lowered(
        graph_module=exported.graph_module,
        signature=signature,
        tensors=tensors,
        origins=origins,
        guards=(),
        passes=(),
        limits=(),
        traced=0,
        decomposed=0,
    )


class Values(Interpreter):
    """Runs a program, and keeps what some of its nodes give.

    Args:
        source: The program; it stays as it is.
        wanted: The nodes.
    """

    def __init__(self, source: Lowered, wanted: Collection[str]) -> None:
        super().__init__(source.graph_module)
        self._source, self._wanted = source, wanted
        self._kept: dict[str, Any] = {}

    def of(self, leaves: Sequence[Any]) -> Mapping[str, Any]:
        """The values for these inputs of the user, by node."""
        written = {node.name for node in written_nodes(self._source.graph_module.graph)}
        names = [spec.arg.name for spec in self._source.signature.input_specs]
        given = self._source.arguments(leaves)
        copied = [
            each.clone() if name in written and isinstance(each, torch.Tensor) else each
            for name, each in zip(names, given, strict=True)
        ]
        with torch.no_grad():
            self.run(*copied)
        return self._kept

    def run_node(self, n: Node) -> Any:
        """Run one node."""
        value = super().run_node(n)
        if n.name in self._wanted:
            self._kept[n.name] = value
        return value
