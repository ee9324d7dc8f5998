"""Where in a program nodes stand, and where what findings say was read: source lines, and statements of targets."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.analysis.finding import Evidence, Place
from trtdiag.frontend.program import OpOrigin, Program
from trtdiag.graph.node_kinds import walk
from trtdiag.graph.source import Frame
from trtdiag.lower.facts import Checked
from trtdiag.targets.target import Target


def at_line(frame: Frame | None) -> str:
    """`` at model.py:41``, ``, in timm/layers/pos_embed.py:9`` where that line leads to a library's, or nothing."""
    if frame is None:
        return ""
    return f" at {frame}" if frame.inside is None else f" at {frame}, in {frame.inside.short}"


def line_evidence(frame: Frame | None) -> list[Evidence]:
    """The line as it stands in the file; nothing where it is not known."""
    return [] if frame is None else [Evidence(frame.code or f"in {frame.function}", str(frame))]


def stated_by(target: Target, statement: str) -> str:
    """Where a target's statement (``max_volume``) was read; the version's name where no source is kept."""
    sources = (f"{kind} ({where})" for kind, where in target.sources if kind.partition(":")[0] == statement)
    return next(sources, target.name)


def place_of(program: Program, node: str, op: str | None = None, frame: Frame | None = None) -> Place:
    """The place of a node; ``frame`` is taken where given, else the node's best source line."""
    return at_origin(node, program.origins.get(node), op, frame)


def at_origin(node: str | None, origin: OpOrigin | None, op: str | None = None, frame: Frame | None = None) -> Place:
    """The place of a node, with its module and line where its origin is known."""
    if origin is None:
        return Place(node=node, frame=frame, op=op)
    return Place(node=node, module_path=origin.module_path, frame=frame or origin.stack.best, op=op)


def node_order(program: object, checked: object) -> Mapping[str, int]:
    """The position of every node, by name; a nested graph's ``sub.node`` follows the node that names it."""
    graph_module = None
    if isinstance(checked, Checked):
        graph_module = checked.graph_module
    elif isinstance(program, Program) and program.exported is not None:
        graph_module = program.exported.graph_module
    return {} if graph_module is None else {located.name: index for index, located in enumerate(walk(graph_module))}
