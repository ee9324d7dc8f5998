"""Layouts of small directed graphs, and the choice of the engine that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtdiag.errors import UserError
from trtdiag.report.drawing import layout_builtin, layout_dot
from trtdiag.report.drawing.layout_types import Layout, LevelGraph
from trtdiag.report.drawing.lone_boxes import connected_part, with_lone_boxes

ENGINES = ("auto", "dot", "builtin")


@dataclass(frozen=True)
class LaidOut:
    """Layouts in the order of the graphs, and one line on how they were made."""

    layouts: tuple[Layout, ...]
    note: str


def lay_out(graphs: Sequence[LevelGraph], engine: str = "auto") -> LaidOut:
    """Lay out every graph; equal graphs are laid out once.

    Args:
        graphs: What to lay out.
        engine: ``dot`` (Graphviz), ``builtin`` (needs no binary), or ``auto``: ``dot`` where it is installed.

    Raises:
        UserError: No such engine, or ``dot`` was asked for by name and cannot do it.
    """
    if engine not in ENGINES:
        raise UserError(
            f"no graph layout {engine!r}",
            because=f"known are {', '.join(ENGINES)}",
            fix="choose one of them",
            reference="layout-unknown",
        )
    parts = {graph: connected_part(graph) for graph in dict.fromkeys(graphs)}
    distinct = [part for part in dict.fromkeys(parts.values()) if part.sizes]
    note = "Graph laid out by the built-in layout"
    made: list[Layout] | None = None
    if engine != "builtin":
        try:
            made = layout_dot.lay_out(distinct)
            note = "Graph laid out by Graphviz dot"
        except layout_dot.DotError as error:
            if engine == "dot":
                raise UserError(
                    "the graph cannot be laid out by dot",
                    because=str(error),
                    fix="install Graphviz, or choose the layout 'auto' or 'builtin'",
                    reference="layout-dot-failed",
                ) from error
            note = f"Graph laid out by the built-in layout: {error}"
    if made is None:
        made = [layout_builtin.lay_out(graph) for graph in distinct]
    by_part = {LevelGraph((), ()): Layout(0.0, 0.0, (), ()), **dict(zip(distinct, made, strict=True))}
    by_graph = {graph: with_lone_boxes(graph, by_part[part]) for graph, part in parts.items()}
    return LaidOut(tuple(by_graph[graph] for graph in graphs), f"{note}.")
