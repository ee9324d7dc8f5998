"""The top level as a picture with final coordinates."""

from __future__ import annotations

from trtdiag.report.drawing.finding_marks import Marks
from trtdiag.report.drawing.layout_types import Layout, Point
from trtdiag.report.drawing.levels import Box, Level
from trtdiag.report.drawing.nodes import DrawnNode
from trtdiag.report.drawing.sides import Sides
from trtdiag.report.page import Part

_EDGE = 10.0  # room around the level for badges
_TEXT_INSET = 10.0


def picture(level: Level, layout: Layout, nodes: tuple[DrawnNode, ...], marks: Marks, where: Sides | None) -> Part:
    """Draw one level; ``where`` says who runs the nodes, where that is known."""
    boxes = tuple(
        _box(box, size, centre, nodes, marks, where)
        for box, size, centre in zip(level.boxes, level.graph.sizes, layout.centres, strict=True)
    )
    return {
        "width": _number(layout.width + 2 * _EDGE),
        "height": _number(layout.height + 2 * _EDGE),
        "boxes": boxes,
        "edges": [f"M{first}C{' '.join(rest)}" for first, *rest in map(_points, layout.curves)],
    }


def _box(box: Box, size: Point, centre: Point, nodes: tuple[DrawnNode, ...], marks: Marks, where: Sides | None) -> Part:
    width, height = size
    left, top = centre[0] - width / 2 + _EDGE, centre[1] - height / 2 + _EDGE
    if box.group is not None:
        kind, found, title = "group", marks.groups[box.number], box.label
        if where is not None and box.group.step is not None:
            kind += " engine" if where.in_engine[box.group.step] else " torch"
    else:
        node, found = nodes[box.number], marks.nodes.get(box.number, ())
        kind = node.role.value if where is None else f"{node.role.value} {where.side[box.number].value}".strip()
        title = f"{node.name}: {node.op} {node.shape}"
    worst = marks.worst(found)
    return {
        "x": _number(left),
        "y": _number(top),
        "width": _number(width),
        "height": _number(height),
        "classes": f"box {kind} marked-{worst}" if worst else f"box {kind}",
        "label": box.label,
        "sub": box.sub,
        "text_x": _number(left + _TEXT_INSET),
        "label_y": _number(top + 16),
        "sub_y": _number(top + 30),
        "badge": str(len(found)) if found else "",
        "badge_class": worst,
        "badge_x": _number(left + width - 2),
        "badge_y": _number(top + 2),
        "badge_text_y": _number(top + 5.5),
        "chip": f"⇠{len(box.chips)}" if box.chips else "",
        "chip_y": _number(top - 2),
        "title": "" if title == box.label else title,
    }


def _points(curve: tuple[Point, ...]) -> list[str]:
    return [f"{_number(x + _EDGE)} {_number(y + _EDGE)}" for x, y in curve]


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
