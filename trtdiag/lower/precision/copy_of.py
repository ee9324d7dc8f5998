"""A copy of a lowered program that the precision pass edits: graph, roles and tensors of its own."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node

from trtdiag.lower.lowered_facts import Lowered


@dataclass
class Copy:
    """A lowered program under change."""

    graph_module: GraphModule
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]
    tensors: dict[str, Any]

    @property
    def graph(self) -> Graph:
        """The graph that is edited."""
        return self.graph_module.graph

    def add_constant(self, name: str, tensor: torch.Tensor, val: Any) -> Node:
        """Add a constant before the user's inputs; torch.fx numbers the name where it is taken."""
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        at = next((i for i, spec in enumerate(self.input_specs) if spec.kind is InputKind.USER_INPUT), None)
        if at is not None:
            insertion = self.graph.inserting_before(placeholders[at])
        elif placeholders:
            insertion = self.graph.inserting_after(placeholders[-1])
        else:
            insertion = self.graph.inserting_before(next(iter(self.graph.nodes)))
        with insertion:
            node = self.graph.placeholder(name)
        node.meta["val"] = val
        spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), node.name)
        self.input_specs.insert(len(self.input_specs) if at is None else at, spec)
        self.tensors[node.name] = tensor
        return node

    def drop_constant(self, node: Node) -> None:
        """Take a constant out that nothing reads any more."""
        self.input_specs = [spec for spec in self.input_specs if getattr(spec.arg, "name", None) != node.name]
        self.tensors.pop(node.name, None)
        self.graph.erase_node(node)

    def signature(self) -> ExportGraphSignature:
        """The roles, with the names that outputs have now."""
        output: Node = next(iter(reversed(self.graph.nodes)))
        returned: Any = output.args[0]
        specs = []
        for spec, value in zip(self.output_specs, returned, strict=True):
            arg = spec.arg
            if isinstance(value, Node) and not isinstance(arg, ConstantArgument):
                arg = replace(arg, name=value.name)
            specs.append(replace(spec, arg=arg))
        return ExportGraphSignature(list(self.input_specs), specs)


def copy_of(lowered: Lowered) -> Copy:
    """Return a copy with nodes and metadata of its own; tensors and values are shared."""
    source = lowered.graph_module
    graph = Graph()
    renamed: dict[Node, Node] = {}
    returned = graph.graph_copy(source.graph, renamed)
    for old, new in renamed.items():
        new.name = old.name  # a new graph would rename ``input``, which the signature names
    output: Node = next(iter(reversed(source.graph.nodes)))
    graph.output(returned).meta.update(output.meta)
    graph.set_codegen(copy.copy(source.graph._codegen))
    fresh = GraphModule(source, graph)
    fresh.meta.update(source.meta)
    signature = lowered.signature
    return Copy(fresh, list(signature.input_specs), list(signature.output_specs), dict(lowered.tensors))
