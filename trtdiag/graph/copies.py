"""Graphs copied node by node."""

from __future__ import annotations

from torch.fx import Graph, Node


def copied_graph(source: Graph) -> tuple[Graph, dict[Node, Node]]:
    """A graph with nodes and metadata of its own, and the copy of each node; values are shared."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    returned = graph.graph_copy(source, copies)
    for old, new in copies.items():
        new.name = old.name  # a new graph would rename ``input``, which the signature names
    end: Node = next(iter(reversed(source.nodes)))
    graph.output(returned).meta.update(end.meta)
    return graph, copies
