"""Layouts of small directed graphs, the choice of the engine that makes them, and rows of boxes without an edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtdiag.errors import UserError
from trtdiag.report.drawing import layout_builtin, layout_dot
from trtdiag.report.drawing.layout_types import Layout, LevelGraph, Point

_GAP = 18.0
_MARGIN = 8.0
_LEAST_WIDTH = 860.0
_MOST_WIDTH = 1600.0


def connected_part(graph: LevelGraph) -> LevelGraph:
    """The graph without its lone boxes."""
    number = _connected(graph)
    sizes = tuple(graph.sizes[box] for box in number)
    return LevelGraph(sizes, tuple((number[tail], number[head]) for tail, head in graph.edges))


def with_lone_boxes(graph: LevelGraph, part: Layout) -> Layout:
    """The layout of the whole graph from that of its connected part."""
    kept = _connected(graph)
    if len(kept) == len(graph.sizes):
        return part
    centres: list[Point] = [(0.0, 0.0)] * len(graph.sizes)
    for box, centre in zip(kept, part.centres, strict=True):
        centres[box] = centre
    room = max(_LEAST_WIDTH, min(part.width, _MOST_WIDTH))
    start = max(0.0, (part.width - room) / 2) + _MARGIN  # under the middle of a wide part, where one looks first
    limit = start + room - _MARGIN
    x, y = start, part.height + _GAP if kept else _MARGIN
    width, row_height = part.width if kept else 0.0, 0.0
    for box, (box_width, box_height) in enumerate(graph.sizes):
        if box in kept:
            continue
        if x > start and x + box_width + _MARGIN > limit:
            x, y, row_height = start, y + row_height + _GAP, 0.0
        centres[box] = (round(x + box_width / 2, 2), round(y + box_height / 2, 2))
        x += box_width + _GAP
        row_height = max(row_height, box_height)
        width = max(width, x - _GAP + _MARGIN)
    return Layout(round(width, 2), round(y + row_height + _MARGIN, 2), tuple(centres), part.curves)


def _connected(graph: LevelGraph) -> dict[int, int]:
    """The boxes with an edge, and their numbers among each other."""
    return {box: at for at, box in enumerate(sorted({end for edge in graph.edges for end in edge}))}


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
