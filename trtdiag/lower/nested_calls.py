"""Calls of nested graphs: which of them run once and always, on what, and under which autocast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from trtdiag.graph.node_kinds import attribute_of, subgraph_of
from trtdiag.graph.operators import HigherOrderOperator, target_name
from trtdiag.lower.template import UntraceableError

Modes = Mapping[str, "torch.dtype | None"]
"""Device type -> the dtype that autocast is on for, ``None`` where it is switched off."""

ENTERS = "torch.amp.autocast_mode._enter_autocast"
LEAVES = "torch.amp.autocast_mode._exit_autocast"
"""Calls around the ops of an autocast block that is no nested graph."""

# Name of the operator -> which argument the nested graph is; what follows are the graph's arguments.
_RUN_ONCE = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4, "tag_activation_checkpoint": 0, "wrap": 0}
_WHOLE = {
    "cond": "it runs one of two nested graphs, and which one depends on data",
    "while_loop": "it repeats a nested graph as long as a condition on data holds",
    "scan": "it repeats a nested graph for each slice of its input",
    "map": "it repeats a nested graph for each slice of its input",
    "map_impl": "it repeats a nested graph for each slice of its input",
    "associative_scan": "it combines the slices of its input with a nested graph",
}


def opened(node: Node, modes: Modes) -> tuple[GraphModule, tuple[Any, ...], Modes]:
    """The nested graph of a call, its arguments, and the state of autocast in it.

    Args:
        node: A call of a higher-order operator.
        modes: The state of autocast around it.

    Raises:
        UntraceableError: The graph does not run once and always.
    """
    name = node.target.name()  # type: ignore[union-attr]  # a higher-order operator
    position = _RUN_ONCE.get(name)
    owner = node.graph.owning_module
    graph = node.args[position] if position is not None and position < len(node.args) else None
    nested = attribute_of(owner, graph) if isinstance(graph, Node) and owner is not None else None
    if position is None or not isinstance(nested, GraphModule):
        raise UntraceableError(_WHOLE.get(name, "it runs a nested graph, which is left whole"))
    if name == "wrap_with_autocast":
        modes = _changed(modes, *node.args[:3])
    return nested, node.args[position + 1 :], modes


def _changed(modes: Modes, device: Any, dtype: Any, enabled: Any) -> Modes:
    if enabled and dtype is None:
        dtype = torch.get_autocast_dtype(device)
    return {**modes, device: dtype if enabled else None}


def is_on(modes: Modes) -> bool:
    """Whether autocast is on for any device."""
    return any(dtype is not None for dtype in modes.values())


def modes_of_nodes(graph: Graph, modes: Modes) -> Iterator[tuple[Node, Modes]]:
    """Each node with the state of autocast at it.

    An exported graph has a block as a nested graph, or, with branches or loops in it, as two calls around its ops.
    """
    before: dict[object, Modes] = {}
    for node in graph.nodes:
        name = target_name(node.target) if node.op == "call_function" else ""
        if name == ENTERS:
            before[node] = modes
            modes = _changed(modes, *node.args[:3])
        elif name == LEAVES:
            modes = before[node.args[0]]
        yield node, modes


def nested_graphs(
    graph_module: GraphModule, modes: Modes | None = None, prefix: str = ""
) -> Iterator[tuple[str, GraphModule, Modes]]:
    """Every nested graph that a graph names, with its attribute path and the state of autocast in it."""
    inside: dict[str, Modes] = {}
    for node, of_node in modes_of_nodes(graph_module.graph, modes or {}):
        if isinstance(node.target, HigherOrderOperator):
            of_call = of_node
            with suppress(UntraceableError):
                _, _, of_call = opened(node, of_node)
            inside.update(dict.fromkeys((str(source.target) for source in node.all_input_nodes), of_call))
    entered: set[str] = set()
    for node in graph_module.graph.nodes:
        nested = subgraph_of(graph_module, node)
        if nested is not None and node.target not in entered:
            entered.add(str(node.target))
            of_graph = inside.get(str(node.target), modes or {})
            yield prefix + str(node.target), nested, of_graph
            yield from nested_graphs(nested, of_graph, f"{prefix}{node.target}.")
