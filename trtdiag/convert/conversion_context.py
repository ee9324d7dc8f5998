"""What conversion reads: the lowered graph, its planned types, and what is known of its sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node

from trtdiag.frontend.program import OpOrigin
from trtdiag.graph.values import NodeReader
from trtdiag.graph.walk import attribute_of
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.symbolic import Condition, Range
from trtdiag.targets.target import Target


@dataclass(frozen=True)
class ConversionContext:
    """A lowered graph to convert parts of.

    Attributes:
        graph_module: The graph; never changed.
        planned: The engine dtype of each output of each node, by name.
        target: What for.
        ranges: Of each symbol of the graph.
        given: Conditions over them that hold for every input.
        origins: Of ops, by node name.
        held: The tensors that the program brings and does not change, by node.
        reader: Reads metadata, that of each node once.
    """

    graph_module: GraphModule
    planned: Mapping[str, Sequence[torch.dtype]]
    target: Target
    ranges: Mapping[str, Range]
    given: tuple[Condition, ...]
    origins: Mapping[str, OpOrigin]
    held: Mapping[Node, torch.Tensor]
    reader: NodeReader = field(default_factory=NodeReader)


def source_of(
    lowered: Lowered,
    planned: Mapping[str, Sequence[torch.dtype]],
    target: Target,
    ranges: Mapping[str, Range],
    given: Sequence[Condition] = (),
) -> ConversionContext:
    """The source for a lowered program; buffers that it writes are no constants."""
    written = {spec.target for spec in lowered.signature.output_specs if spec.target is not None}
    names = {spec.target: spec.arg.name for spec in lowered.signature.input_specs if hasattr(spec.arg, "name")}
    changed = {names[target_name] for target_name in written if target_name in names}
    held: dict[Node, torch.Tensor] = {}
    for node in lowered.graph_module.graph.nodes:
        found = None
        if node.op == "placeholder" and node.name not in changed:
            found = lowered.tensors.get(node.name)
        elif node.op == "get_attr":
            found = attribute_of(lowered.graph_module, node)
        if isinstance(found, torch.Tensor):
            held[node] = found
    return ConversionContext(lowered.graph_module, planned, target, ranges, tuple(given), lowered.origins, held)
