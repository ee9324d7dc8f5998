"""The copy that lowering works on; nothing outside of lowering ever sees it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputSpec
from torch.fx import Graph, GraphModule, Node

from trtdiag.frontend.node_origins import origin_of
from trtdiag.frontend.program import Program
from trtdiag.graph.aliases import alias_roots
from trtdiag.graph.operators import target_name, writes
from trtdiag.lower.lowered_facts import LoweringLimit
from trtdiag.lower.tracing_conditions import Proofs

Keep = Callable[[OpOverload], bool]

# What describes a node's own value rather than where it comes from.
_OF_THE_VALUE = ("val", "tensor_meta", "unbacked_bindings")


@dataclass
class Draft:
    """A graph that is being lowered, with the roles of its inputs and outputs.

    Attributes:
        program: Where it came from.
        graph_module: The copy; passes edit it.
        keep: Which ops stay whole.
        mode: The fake mode of the values.
        input_specs: One for each placeholder, in order.
        output_specs: One for each output, in order; their argument names are filled in at the end.
        tensors: Values of placeholders that are no user inputs.
        limits: What could not be lowered so far.
        traced: Distinct calls that were traced.
        decomposed: Nodes that were replaced by their decomposition.
    """

    program: Program
    graph_module: GraphModule
    keep: Keep
    mode: FakeTensorMode
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]
    tensors: dict[str, Any]
    limits: list[LoweringLimit] = field(default_factory=list)
    traced: int = 0
    decomposed: int = 0

    @cached_property
    def proofs(self) -> Proofs:
        """What holds over the ranges."""
        return Proofs(self.program)

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

    def limit(self, node: Node, why: str) -> None:
        """Note why a node stays as it is; the first reason for a node counts."""
        if all(known.node != node.name for known in self.limits):
            self.limits.append(LoweringLimit(node.name, target_name(node.target), why, origin_of(node)))


def new_draft(program: Program, exported: ExportedProgram, graph_module: GraphModule, keep: Keep) -> Draft:
    """A copy of ``graph_module`` to work on; nodes are copied with their metadata, tensors and values are shared."""
    graph = Graph()
    renamed: dict[Node, Node] = {}
    returned = graph.graph_copy(graph_module.graph, renamed)
    outputs = next(iter(reversed(graph_module.graph.nodes)))
    for old, new in renamed.items():
        new.name = old.name  # a new graph would rename ``input``, which the signature names
    graph.output(returned).meta.update(outputs.meta)
    graph.set_codegen(copy.copy(graph_module.graph._codegen))
    fresh = GraphModule(graph_module, graph)
    fresh.meta.update(graph_module.meta)
    signature = exported.graph_signature
    vals = (node.meta.get("val") for node in graph.nodes)
    mode = detect_fake_mode([val for val in vals if isinstance(val, torch.Tensor)])
    return Draft(
        program=program,
        graph_module=fresh,
        keep=keep,
        mode=mode if mode is not None else FakeTensorMode(allow_non_fake_inputs=True),
        input_specs=list(signature.input_specs),
        output_specs=list(signature.output_specs),
        tensors=_tensors(exported, [n.name for n in graph.nodes if n.op == "placeholder"]),
    )


def _tensors(exported: ExportedProgram, placeholders: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, spec in zip(placeholders, exported.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT or spec.target is None:
            continue
        # A buffer that is not persistent lies among the constants.
        values = exported.state_dict if spec.target in exported.state_dict else exported.constants
        if spec.target in values:
            found[name] = values[spec.target]
    return found


def insert_call(
    graph: Graph, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any, *, like: Node, name: str
) -> Node:
    """A new call at the insertion point with a value of its own, and source line and module path of ``like``."""
    node = graph.create_node("call_function", target, args, kwargs, name=name)
    node.meta = {key: value for key, value in like.meta.items() if key not in _OF_THE_VALUE}
    node.meta["val"] = val
    return node


def written_nodes(graph: Graph) -> set[Node]:
    """Nodes that share memory with something that an op of the graph still changes in place."""
    if not any(writes(node) for node in graph.nodes):
        return set()
    roots = alias_roots(graph)
    changed = {roots[given] for node in graph.nodes for given in writes(node)}
    return {node for node, root in roots.items() if root in changed}


def named_outputs(draft: Draft) -> list[OutputSpec]:
    """The output specs with the names that the nodes have now."""
    specs: list[OutputSpec] = []
    for spec, value in zip(draft.output_specs, draft.output.args[0], strict=True):  # type: ignore[arg-type]  # a tuple
        arg = spec.arg
        if isinstance(value, Node) and not isinstance(arg, ConstantArgument):
            arg = replace(arg, name=value.name)
        specs.append(replace(spec, arg=arg))
    return specs
