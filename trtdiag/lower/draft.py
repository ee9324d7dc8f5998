"""The copy that lowering works on; nothing outside of lowering ever sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from trtdiag.frontend.node_origins import origin_of
from trtdiag.frontend.program import Program
from trtdiag.graph.fake_values import fake_mode_of
from trtdiag.graph.operators import short_name, target_name
from trtdiag.graph.user_entries import Entries
from trtdiag.lower.graph_copy import GraphCopy, brought_tensors, copied
from trtdiag.lower.lowered_facts import FourierProducts, LoweringLimit
from trtdiag.lower.template import Template, filled, gathered
from trtdiag.lower.tracing_conditions import Proofs

Keep = Callable[[OpOverload], bool]

# What describes a node's own value rather than where it comes from.
_NONE: Mapping[str, Any] = {}
OF_THE_VALUE = ("val", "tensor_meta", "unbacked_bindings")


@dataclass
class Draft(GraphCopy):
    """A graph that is being lowered.

    Attributes:
        program: Where it came from.
        keep: Which ops stay whole.
        mode: The fake mode of the values.
        limits: What could not be lowered so far.
        truncate_double: Whether engines may compute float64 in float32.
        in_torch: Ops and modules that the user keeps in PyTorch.
        transforms: Fourier transforms that were written as products.
        traced: Distinct calls that were traced.
        decomposed: Nodes that were replaced by their decomposition.
        random_outside: Whether random ops are taken apart, so that engines take what is computed with their numbers.
    """

    program: Program
    keep: Keep
    mode: FakeTensorMode
    truncate_double: bool = False
    in_torch: Entries = field(default_factory=lambda: Entries(()))
    limits: list[LoweringLimit] = field(default_factory=list)
    transforms: list[FourierProducts] = field(default_factory=list)
    traced: int = 0
    decomposed: int = 0
    random_outside: bool = False

    @cached_property
    def proofs(self) -> Proofs:
        """What holds over the ranges."""
        return Proofs(self.program)

    def limit(self, node: Node, why: str) -> None:
        """Note why a node stays as it is; the first reason for a node counts."""
        if all(known.node != node.name for known in self.limits):
            self.limits.append(LoweringLimit(node.name, target_name(node.target), why, origin_of(node)))


def new_draft(program: Program, exported: ExportedProgram, graph_module: GraphModule, keep: Keep) -> Draft:
    """A copy of ``graph_module`` to work on; nodes are copied with their metadata, tensors and values are shared."""
    fresh = copied(graph_module)
    signature = exported.graph_signature
    return Draft(
        fresh,
        list(signature.input_specs),
        list(signature.output_specs),
        brought_tensors(exported),
        program=program,
        keep=keep,
        mode=fake_mode_of(fresh.graph),
    )


def insert_call(
    graph: Graph,
    target: Any,
    args: tuple[Any, ...],
    val: Any,
    like: Node,
    suffix: str = "",
    kwargs: Mapping[str, Any] = _NONE,
    *,
    name: str = "",
) -> Node:
    """A new call at the insertion point with a value of its own, and source line and module path of ``like``.

    Without a name it has that of ``like`` with the suffix.
    """
    node = graph.create_node("call_function", target, args, dict(kwargs), name=name or f"{like.name}__{suffix}")
    node.meta = {key: value for key, value in like.meta.items() if key not in OF_THE_VALUE}
    node.meta["val"] = val
    return node


def insert_steps(graph: Graph, node: Node, template: Template, inputs: Sequence[Node] | None = None) -> list[Any]:
    """Insert what a call of a graph becomes before it; its inputs, or those given, and the new nodes behind them."""
    values: list[Any] = gathered((node.args, node.kwargs), Node) if inputs is None else list(inputs)
    with graph.inserting_before(node):
        for step in template.steps:
            args, kwargs = filled((step.args, step.kwargs), values)
            part = short_name(step.target) if isinstance(step.target, OpOverload) else target_name(step.target)
            part = part.rpartition(".")[2]
            values.append(insert_call(graph, step.target, args, step.val, node, part, kwargs))
    return values
