"""What conversion reads: the lowered graph, its planned types, and what is known of its sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node

from trtdiag.frontend.program import OpOrigin
from trtdiag.graph.values import NodeReader
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
