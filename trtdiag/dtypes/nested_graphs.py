"""Which values a higher-order op hands to the placeholders of the graphs it runs."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import GraphModule, Node

from trtdiag.graph.node_kinds import subgraph_of
from trtdiag.graph.operators import target_name
from trtdiag.graph.values import leaves

# These run their one graph exactly once, with their operands as its arguments.
ALWAYS_RUN = frozenset(
    {
        "hints_wrapper",
        "invoke_subgraph",
        "strict_mode",
        "tag_activation_checkpoint",
        "wrap",
        "wrap_with_autocast",
        "wrap_with_set_grad_enabled",
    }
)
# These run one of their graphs with the same operands.
BRANCHES = frozenset({"cond"})


@dataclass(frozen=True)
class NestedGraph:
    """One graph under a higher-order op: its module, its name prefix, its placeholders and what they get.

    ``bound`` is empty where the op changes the operands on the way (loops).
    """

    graph: GraphModule
    prefix: str
    bound: tuple[tuple[Node, object], ...]


def operands(owner: GraphModule, node: Node, prefix: str) -> tuple[NestedGraph, ...]:
    """Return the graphs that a higher-order op runs, in argument order."""
    graphs: list[tuple[GraphModule, str]] = []
    values: list[object] = []
    for argument in (*node.args, *node.kwargs.values()):
        graph = subgraph_of(owner, argument) if isinstance(argument, Node) else None
        if graph is not None and isinstance(argument, Node):
            graphs.append((graph, f"{prefix}{argument.target}."))
            values.clear()
        elif graphs:
            values += [leaf for leaf in leaves(argument) if isinstance(leaf, (Node, int, float))]
    name = target_name(node.target)
    passes_on = name in ALWAYS_RUN or name in BRANCHES
    found = []
    for graph, nested_prefix in graphs:
        inputs = graph.graph.find_nodes(op="placeholder")
        fits = passes_on and len(inputs) == len(values)
        bound = tuple(zip(inputs, values, strict=True)) if fits else ()
        found.append(NestedGraph(graph, nested_prefix, bound))
    return tuple(found)
