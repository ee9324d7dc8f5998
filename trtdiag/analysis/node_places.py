"""Places: where in a program a node stands, and in which order nodes come."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.analysis.finding import Place
from trtdiag.frontend.program import OpOrigin, Program
from trtdiag.graph.source import Frame
from trtdiag.graph.walk import walk
from trtdiag.lower.facts import Checked


def place_of(program: Program, node: str, op: str | None = None, frame: Frame | None = None) -> Place:
    """The place of a node; ``frame`` is taken where given, else the node's best source line."""
    origin = program.origins.get(node)
    if origin is None:
        return Place(node=node, frame=frame, op=op)
    return at_origin(node, origin, op, frame)


def at_origin(node: str | None, origin: OpOrigin, op: str | None = None, frame: Frame | None = None) -> Place:
    """The place of a node whose origin is at hand."""
    return Place(node=node, module_path=origin.module_path, frame=frame or origin.stack.best, op=op)


def node_order(program: object, checked: object) -> Mapping[str, int]:
    """The position of every node, by name; a nested graph's ``sub.node`` follows the node that names it."""
    graph_module = None
    if isinstance(checked, Checked):
        graph_module = checked.graph_module
    elif isinstance(program, Program) and program.exported is not None:
        graph_module = program.exported.graph_module
    return {} if graph_module is None else {located.name: index for index, located in enumerate(walk(graph_module))}
