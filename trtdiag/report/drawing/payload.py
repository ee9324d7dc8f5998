"""The graph as data for the explorer: every text once, columns instead of records, one layout for equal levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtdiag.analysis.finding import Finding
from trtdiag.graph.source import Stack
from trtdiag.report.drawing.levels import Level
from trtdiag.report.drawing.marks import Marks
from trtdiag.report.drawing.nodes import DrawnNode, Role
from trtdiag.report.drawing.plan import Layout, LevelGraph
from trtdiag.report.json_parts import Json, json_text
from trtdiag.report.text import one_line
from trtdiag.report.verdict import severity_word

_ROLES = tuple(Role)
_LONGEST_MESSAGE_CHARS = 400


class _Texts:
    """Numbers texts in the order of their first use."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def add(self, text: str) -> int:
        return self._number.setdefault(text, len(self._number))

    def listed(self) -> Json:
        return [one_line(text) for text in self._number]


class _Stacks:
    """Numbers stacks and frames: thousands of nodes share a few dozen stacks."""

    def __init__(self, texts: _Texts) -> None:
        self._texts = texts
        self._by_identity: dict[int, int] = {}
        self._number: dict[Stack, int] = {}
        self._frames: dict[tuple[int, int, int, int, int], int] = {}
        self._listed: list[Json] = []

    def add(self, stack: Stack) -> int:
        known = self._by_identity.get(id(stack))  # parsing interns stacks; hashing one walks all its frames
        if known is None:
            known = self._number.setdefault(stack, len(self._number))
            self._by_identity[id(stack)] = known
            if known == len(self._listed):
                self._listed.append([self._frame_number(frame) for frame in self._frames_of(stack)])
        return known

    def _frames_of(self, stack: Stack) -> Iterable[tuple[int, int, int, int, int]]:
        for frame in stack.frames:
            mine = int(frame.package is None)
            add = self._texts.add
            yield add(frame.file), frame.line, add(frame.function), add(frame.code), mine

    def _frame_number(self, frame: tuple[int, int, int, int, int]) -> int:
        return self._frames.setdefault(frame, len(self._frames))

    def listed(self) -> tuple[Json, Json]:
        return self._listed, [list(frame) for frame in self._frames]


def payload(
    nodes: Sequence[DrawnNode],
    levels: Sequence[Level],
    layouts: Sequence[Layout],
    marks: Marks,
    findings: Sequence[Finding],
) -> str:
    """The data as JSON text.  Cost: linear."""
    texts = _Texts()
    stacks = _Stacks(texts)
    columns: dict[str, Json] = {
        "name": _steps([texts.add(node.name) for node in nodes]),
        "op": [texts.add(node.op) for node in nodes],
        "role": [_ROLES.index(node.role) for node in nodes],
        "shape": [texts.add(node.shape) for node in nodes],
        "ranges": [texts.add(node.ranges) for node in nodes],
        "module": [texts.add(node.module_path) for node in nodes],
        "type": [texts.add(node.module_type) for node in nodes],
        "stack": [stacks.add(node.stack) for node in nodes],
        "reads": [[at - source for source in node.reads] for at, node in enumerate(nodes)],
    }
    number: dict[LevelGraph, int] = {}
    drawn: list[Json] = []
    for level, layout in zip(levels, layouts, strict=True):
        if level.graph not in number:
            number[level.graph] = len(drawn)
            drawn.append(_layout_json(level.graph, layout))
    groups: list[Json] = [
        [
            texts.add(level.group.label),
            texts.add(level.group.path),
            texts.add(level.group.module_type),
            level.group.ops,
            number[level.graph],
            _steps([box.node if box.node is not None else -1 - (box.group or 0) for box in level.boxes]),
            [texts.add(box.label) for box in level.boxes],
            [texts.add(box.sub) for box in level.boxes],
            [[at, *box.chips] for at, box in enumerate(level.boxes) if box.chips],
            _steps(level.group.undrawn),
            list(marks.groups[at]),
        ]
        for at, level in enumerate(levels)
    ]
    stack_list, frames = stacks.listed()
    body: dict[str, Json] = {
        "roles": [role.value for role in _ROLES],
        "nodes": columns,
        "groups": groups,
        "layouts": drawn,
        "stacks": stack_list,
        "frames": frames,
        "findings": [
            [f.id, f.severity.value, severity_word(f.severity), one_line(f.message, _LONGEST_MESSAGE_CHARS)]
            for f in findings
        ],
        "marks": [[node, *found] for node, found in sorted(marks.nodes.items())],
        "texts": texts.listed(),
    }
    return json_text(body, compact=True)


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
