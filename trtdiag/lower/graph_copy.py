"""A copy of a program's graph that is being changed, with the roles of its inputs and outputs."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node

from trtdiag.errors import InternalError
from trtdiag.frontend.program import Program
from trtdiag.frontend.rebuilt_program import copied_graph
from trtdiag.graph.aliases import written_nodes


def graph_of(program: Program, who: str, reference: str) -> ExportedProgram:
    """The exported program that a stage works on.

    Raises:
        InternalError: There is none.
    """
    if program.exported is None:
        raise InternalError(
            f"{who} was run without a graph",
            because="the export failed",
            fix="please report this: the pipeline should have skipped the stage",
            reference=reference,
        )
    return program.exported


@dataclass
class GraphCopy:
    """A graph under change.

    Attributes:
        graph_module: The copy, which is edited.
        input_specs: One for each placeholder, in order.
        output_specs: One for each output, in order; their argument names are filled in at the end.
        tensors: Values of placeholders that are no user inputs.
    """

    graph_module: GraphModule
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]
    tensors: dict[str, Any]

    @property
    def graph(self) -> Graph:
        """The graph of the copy."""
        return self.graph_module.graph

    @property
    def output(self) -> Node:
        """The output node."""
        node: Node = next(iter(reversed(self.graph.nodes)))
        return node

    @property
    def placeholders(self) -> list[Node]:
        """The placeholders in order."""
        return [node for node in self.graph.nodes if node.op == "placeholder"]

    def add_constant(self, name: str, tensor: torch.Tensor, val: Any, prefix: str = "") -> Node:
        """Add a constant before the user's inputs; torch.fx numbers the name where it is taken.

        The program knows it by that name without ``prefix``.
        """
        kinds = [spec.kind for spec in self.input_specs]
        at = kinds.index(InputKind.USER_INPUT) if InputKind.USER_INPUT in kinds else len(kinds)
        with self.graph.inserting_before(next(itertools.islice(self.graph.nodes, at, None))):
            node = self.graph.placeholder(name)
        node.meta["val"] = val
        spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), node.name.removeprefix(prefix))
        self.input_specs.insert(at, spec)
        self.tensors[node.name] = tensor
        return node

    def drop_constant(self, node: Node) -> None:
        """Take a constant out that nothing reads any more."""
        self.input_specs = [spec for spec in self.input_specs if getattr(spec.arg, "name", None) != node.name]
        self.tensors.pop(node.name, None)
        self.graph.erase_node(node)

    def signature(self) -> ExportGraphSignature:
        """The roles, with the names that outputs have now."""
        specs: list[OutputSpec] = []
        for spec, value in zip(self.output_specs, self.output.args[0], strict=True):  # type: ignore[arg-type]  # a tuple
            arg = spec.arg
            if isinstance(value, Node) and not isinstance(arg, ConstantArgument):
                arg = replace(arg, name=value.name)
            specs.append(replace(spec, arg=arg))
        return ExportGraphSignature(list(self.input_specs), specs)


def copied(source: GraphModule) -> GraphModule:
    """A copy with nodes and metadata of its own; tensors and values are shared."""
    graph, _ = copied_graph(source.graph)
    graph.set_codegen(copy.copy(source.graph._codegen))
    fresh = GraphModule(source, graph)
    fresh.meta.update(source.meta)
    return fresh


def brought_tensors(exported: ExportedProgram) -> dict[str, Any]:
    """The values of a program's placeholders that are no user inputs, by placeholder."""
    # A buffer that is not persistent lies among the constants.
    held = {**exported.constants, **exported.state_dict}
    specs = (spec for spec in exported.graph_signature.input_specs if spec.kind is not InputKind.USER_INPUT)
    return {spec.arg.name: held[spec.target] for spec in specs if spec.target in held}


def constant_tensors(
    inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec], tensors: Mapping[str, Any], graph: Graph
) -> dict[str, torch.Tensor]:
    """The tensors that a program of this signature brings and does not change, by placeholder.

    An op of the graph may change one in place, by a view of it, too.
    """
    written = {node.name for node in written_nodes(graph)}
    changed = {spec.target for spec in outputs} | {spec.target for spec in inputs if spec.arg.name in written}
    constant = (spec for spec in inputs if spec.kind is not InputKind.USER_INPUT and spec.target not in changed)
    found = {name: tensors.get(name) for spec in constant if (name := getattr(spec.arg, "name", ""))}
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, torch.Tensor)}


def identity(tensor: torch.Tensor) -> Any:
    """Equal for two names of one tensor."""
    if tensor.layout != torch.strided:
        return id(tensor)
    start = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
    return start, tuple(tensor.shape), tensor.stride(), tensor.dtype


def free_attribute(owner: GraphModule, stem: str) -> str:
    """A name for an attribute that a module does not have yet."""
    return next(name for number in itertools.count() if not hasattr(owner, name := f"{stem}_{number}"))
