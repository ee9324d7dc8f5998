"""Places: where in a program a node stands, and in which order nodes come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch.fx import GraphModule, Node

from trtdiag.analysis.finding import Place
from trtdiag.capture.program import OpOrigin, Program
from trtdiag.graph.source import Frame
from trtdiag.lower.facts import Checked


def place_of(program: Program, node: str, op: str | None = None, frame: Frame | None = None) -> Place:
    """The place of a node; ``frame`` is taken where given, else the node's best source line."""
    origin = program.origins.get(node)
    if origin is None:
        return Place(node=node, frame=frame, op=op)
    return at_origin(node, origin, op, frame)


def at_origin(node: str, origin: OpOrigin, op: str | None = None, frame: Frame | None = None) -> Place:
    """The place of a node whose origin is at hand."""
    return Place(node=node, module_path=origin.module_path, frame=frame or origin.stack.best, op=op)


def node_order(program: object, checked: object) -> Mapping[str, int]:
    """The position of every node, by name; nested subgraphs follow as ``sub.node``."""
    graph_module = None
    if isinstance(checked, Checked):
        graph_module = checked.graph_module
    elif isinstance(program, Program) and program.exported is not None:
        graph_module = program.exported.graph_module
    return {} if graph_module is None else {name: index for index, (name, _, _) in enumerate(nodes(graph_module))}


def nodes(graph_module: GraphModule, prefix: str = "") -> Iterator[tuple[str, str, Node]]:
    """Every node with its full name and the part of it before its own; nested subgraphs follow their parent."""
    for node in graph_module.graph.nodes:
        yield f"{prefix}{node.name}", prefix, node
    for name, child in graph_module.named_children():
        if isinstance(child, GraphModule):
            yield from nodes(child, f"{prefix}{name}.")
