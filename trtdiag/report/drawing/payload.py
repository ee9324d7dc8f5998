"""The graph as data for the explorer: every text once, columns instead of records, one layout for equal levels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtdiag.analysis.finding import Finding
from trtdiag.graph.source import Frame, Stack
from trtdiag.report.drawing.engine_layers import EngineLayers
from trtdiag.report.drawing.layout_types import Layout, LevelGraph
from trtdiag.report.drawing.levels import Level
from trtdiag.report.drawing.marks import Marks
from trtdiag.report.drawing.nodes import DrawnNode, Role
from trtdiag.report.drawing.sides import Side, Sides
from trtdiag.report.strict_json import Json, json_text
from trtdiag.report.verdict import severity_word
from trtdiag.wording import LONG_CHARS, one_line

_ROLES = tuple(Role)
_SIDES = tuple(Side)


def _numbers() -> defaultdict[Any, int]:
    """Numbers things in the order of their first use."""
    numbers: defaultdict[Any, int] = defaultdict(lambda: len(numbers))
    return numbers


class _Stacks:
    """Numbers stacks and frames: thousands of nodes share a few dozen stacks."""

    def __init__(self, texts: defaultdict[str, int]) -> None:
        self._texts = texts
        self._by_identity: dict[int, int] = {}
        self._number = _numbers()
        self.frames = _numbers()
        self.listed: list[Json] = []

    def add(self, stack: Stack) -> int:
        known = self._by_identity.get(id(stack))  # parsing interns stacks; hashing one walks all its frames
        if known is None:
            known = self._by_identity[id(stack)] = self._number[stack]
            if known == len(self.listed):
                self.listed.append([self.frames[self._frame(frame)] for frame in stack.frames])
        return known

    def _frame(self, frame: Frame) -> tuple[int, ...]:
        texts = self._texts
        return texts[frame.file], frame.line, texts[frame.function], texts[frame.code], int(frame.package is None)


@dataclass(frozen=True)
class DrawnView:
    """One way to group the nodes: its levels, the root first, with their layouts and marks."""

    name: str
    levels: Sequence[Level]
    layouts: Sequence[Layout]
    marks: Marks


def payload(
    nodes: Sequence[DrawnNode],
    views: Sequence[DrawnView],
    sides: Sides | None,
    layers: EngineLayers,
    findings: Sequence[Finding],
) -> str:
    """The data as JSON text.  Cost: linear.

    Args:
        nodes: Every node.
        views: The ways to group them, the one shown first before the others.
        sides: Where they run; ``None`` where that was not worked out.
        layers: Those of built engines.
        findings: What marks are positions in.
    """
    texts = _numbers()
    stacks = _Stacks(texts)
    columns: dict[str, Json] = {
        "name": _steps([texts[node.name] for node in nodes]),
        "op": [texts[node.op] for node in nodes],
        "role": [_ROLES.index(node.role) for node in nodes],
        "shape": [texts[node.shape] for node in nodes],
        "ranges": [texts[node.ranges] for node in nodes],
        "module": [texts[node.origin.module_path] for node in nodes],
        "type": [texts[node.origin.module_type] for node in nodes],
        "stack": [stacks.add(node.origin.stack) for node in nodes],
        "reads": [[at - source for source in node.reads] for at, node in enumerate(nodes)],
    }
    if sides is not None:
        columns["side"] = [_SIDES.index(side) for side in sides.side]
        columns["runs"] = [texts[words] for words in sides.words]
    number: dict[LevelGraph, int] = {}
    drawn: list[Json] = []
    for view in views:
        for level, layout in zip(view.levels, view.layouts, strict=True):
            if level.graph not in number:
                number[level.graph] = len(drawn)
                drawn.append(_layout_json(level.graph, layout))
    grouped: list[Json] = [
        [view.name, [_group_json(level, view.marks.groups[at], number, texts) for at, level in enumerate(view.levels)]]
        for view in views
    ]
    body: dict[str, Json] = {
        "roles": [role.value for role in _ROLES],
        "nodes": columns,
        "sides": [side.value for side in _SIDES],
        "views": grouped,
        "layouts": drawn,
        "stacks": stacks.listed,
        "frames": [list(frame) for frame in stacks.frames],
        "findings": [
            [f.id, f.severity.value, severity_word(f.severity), one_line(f.message, LONG_CHARS)] for f in findings
        ],
        "marks": [[node, *found] for node, found in sorted(views[0].marks.nodes.items())],
        "layers": [[texts[each] for each in layer] for layer in layers.told],
        "layered": [[node, *found] for node, found in sorted(layers.of_node.items())],
        "texts": [one_line(text) for text in texts],
    }
    return json_text(body, compact=True)


def _group_json(level: Level, found: Sequence[int], number: Mapping[LevelGraph, int], texts: Mapping[str, int]) -> Json:
    group = level.group
    return [
        texts[group.label],
        texts[group.path],
        texts[group.module_type],
        group.ops,
        number[level.graph],
        _steps([box.number if box.group is None else -1 - box.number for box in level.boxes]),
        [texts[box.label] for box in level.boxes],
        [texts[box.sub] for box in level.boxes],
        [[at, *box.chips] for at, box in enumerate(level.boxes) if box.chips],
        _steps(group.undrawn),
        list(found),
    ]


def _steps(numbers: Sequence[int]) -> list[Json]:
    """Each number less the one before it: runs of neighbours become runs of ones, which pack to nothing."""
    return [number - before for number, before in zip(numbers, (0, *numbers), strict=False)]


def _layout_json(graph: LevelGraph, layout: Layout) -> Json:
    boxes: list[Json] = []
    for (x, y), (width, height) in zip(layout.centres, graph.sizes, strict=True):
        boxes += [_short(x), _short(y), _short(width), _short(height)]
    edges: list[Json] = [
        [tail, head, *(_short(value) for point in curve for value in point)]
        for (tail, head), curve in zip(graph.edges, layout.curves, strict=True)
    ]
    return [_short(layout.width), _short(layout.height), boxes, edges]


def _short(value: float) -> float | int:
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded
