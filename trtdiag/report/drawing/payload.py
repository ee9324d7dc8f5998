"""The graph as data for the explorer: every text once, columns instead of records, source lines by file."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from trtdiag.analysis.finding import Finding
from trtdiag.graph.source import Frame, Stack
from trtdiag.report.drawing import packing
from trtdiag.report.drawing.engine_layers import EngineLayers
from trtdiag.report.drawing.finding_marks import Marks
from trtdiag.report.drawing.layout_types import Layout, LevelGraph
from trtdiag.report.drawing.levels import Level
from trtdiag.report.drawing.measures import Measures
from trtdiag.report.drawing.nodes import DrawnNode, Role
from trtdiag.report.drawing.sides import Side, Sides
from trtdiag.report.shown_paths import short_paths, shown_file
from trtdiag.report.source_context import shown_lines
from trtdiag.report.strict_json import Json, json_text
from trtdiag.report.verdict import severity_word
from trtdiag.wording import LONG_CHARS, bytes_text, one_line

MOST_LINES = 800
_AROUND = 1
_WIDEST_GAP = 3
"""Lines between two that are shown: fewer are shown, too, so that the source reads on."""

Stretch: TypeAlias = tuple[int, tuple[str, ...]]
"""The number of its first line, and its lines."""


def source_lines(stacks: Iterable[Stack]) -> tuple[tuple[str, tuple[Stretch, ...]], ...]:
    """The files of the user and of model libraries that frames point into, each with those lines and some around them.

    A file that is not what was traced, or is gone, has only the lines that were recorded.  Cost: linear in frames.
    """
    recorded: dict[str, dict[int, str]] = {}
    for stack in stacks:
        for frame in stack.frames:
            if frame.code.strip() and not frame.is_plumbing:
                recorded.setdefault(frame.file, {})[frame.line] = frame.code
    found, room = [], MOST_LINES
    for file in sorted(recorded, key=lambda file: Frame(file, 1).package is not None):  # the user's before libraries'
        lines = dict(sorted(_with_context(file, recorded[file]).items())[:room])
        room -= len(lines)
        if lines:
            found.append((file, _stretches(lines)))
    return tuple(found)


def _with_context(file: str, recorded: Mapping[int, str]) -> dict[int, str]:
    """By number: the recorded lines, those around them, and what is between near ones."""
    wanted = {near for line in recorded for near in range(line - _AROUND, line + _AROUND + 1)}
    ordered = sorted(wanted)
    for before, after in pairwise(ordered):
        if after - before <= _WIDEST_GAP + 1:
            wanted.update(range(before, after))
    return shown_lines(file, recorded, wanted)


def _stretches(lines: Mapping[int, str]) -> tuple[Stretch, ...]:
    found: list[tuple[int, list[str]]] = []
    for number, text in lines.items():
        if not found or number != found[-1][0] + len(found[-1][1]):
            found.append((number, []))
        found[-1][1].append(text)
    return tuple((first, tuple(texts)) for first, texts in found)


FORM = 2
"""Of the data; those of a saved page of version 1 name none."""
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

    @property
    def known(self) -> Iterable[Stack]:
        """Every stack once."""
        return self._number

    def add(self, stack: Stack) -> int:
        known = self._by_identity.get(id(stack))  # parsing interns stacks; hashing one walks all its frames
        if known is None:
            known = self._by_identity[id(stack)] = self._number[stack]
            if known == len(self.listed):
                self.listed.append([self.frames[self._frame(frame)] for frame in stack.frames])
        return known

    def _frame(self, frame: Frame) -> tuple[int, ...]:
        texts = self._texts
        return (
            texts[shown_file(frame.file)],
            frame.line,
            texts[frame.function],
            texts[frame.code],
            int(frame.package is None),
        )


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
    measured: Measures,
) -> str:
    """The data as JSON text.  Cost: linear.

    Args:
        nodes: Every node.
        views: The ways to group them, the one shown first before the others.
        sides: Where they run; ``None`` where that was not worked out.
        layers: Those of built engines.
        findings: What marks are positions in.
        measured: What nodes can be coloured by.
    """
    texts = _numbers()
    stacks = _Stacks(texts)
    arguments = _numbers()
    sizes = _numbers()
    named, names = packing.names(nodes)
    columns: dict[str, Json] = {
        "name": named,
        "op": [texts[node.op] for node in nodes],
        "role": [_ROLES.index(node.role) for node in nodes],
        "shape": [texts[node.shape] for node in nodes],
        "ranges": [texts[node.ranges] for node in nodes],
        "module": [texts[node.origin.module_path] for node in nodes],
        "type": [texts[node.origin.module_type] for node in nodes],
        "stack": [stacks.add(node.origin.stack) for node in nodes],
        "args": [arguments[node.arguments] for node in nodes],
        "dtype": [texts[measured.precision.get(at, "")] for at in range(len(nodes))],
        "bytes": [sizes[measured.bytes.get(at, 0)] for at in range(len(nodes))],
        "reads": packing.reads(nodes),
    }
    if sides is not None:
        columns["side"] = [_SIDES.index(side) for side in sides.side]
        columns["runs"] = [texts[words] for words in sides.words]
        columns["step"] = [-1 if step is None else step for step in sides.step]
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
        "form": FORM,
        "roles": [role.value for role in _ROLES],
        "names": names,
        "nodes": columns,
        "sides": [side.value for side in _SIDES],
        "views": grouped,
        "layouts": drawn,
        "stacks": stacks.listed,
        "frames": [list(frame) for frame in stacks.frames],
        "findings": [
            [f.id, f.severity.value, severity_word(f.severity), one_line(short_paths(f.message), LONG_CHARS)]
            for f in findings
        ],
        "marks": [[node, *found] for node, found in sorted(views[0].marks.nodes.items())],
        "args": [[[texts[name], texts[text], int(given)] for name, text, given in each] for each in arguments],
        "bytes": [[count, bytes_text(count)] for count in sizes],
        "times": [[node, time] for node, time in measured.milliseconds.items()],
        "errors": [[node, off if math.isfinite(off) else None] for node, off in measured.errors.items()],
        "told": dict(measured.told),
        "lacks": dict(measured.lacks),
        "steps": [] if sides is None else [texts[label] for label in sides.labels],
        "sources": [
            [texts[shown_file(file)], [[first, *lines] for first, lines in stretches]]
            for file, stretches in source_lines(stacks.known)
        ],
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
        packing.boxes(level.boxes),
        [texts[box.label] for box in level.boxes],
        [texts[box.sub] for box in level.boxes],
        [[at, *box.chips] for at, box in enumerate(level.boxes) if box.chips],
        packing.steps(group.undrawn),
        list(found),
    ]


def _layout_json(graph: LevelGraph, layout: Layout) -> Json:
    boxes: list[Json] = []
    for (x, y), (width, height) in zip(layout.centres, graph.sizes, strict=True):
        boxes += [packing.tenths(x), packing.tenths(y), packing.tenths(width), packing.tenths(height)]
    edges: list[Json] = [
        [tail, head, *packing.curve(curve, layout.centres[tail])]
        for (tail, head), curve in zip(graph.edges, layout.curves, strict=True)
    ]
    return [packing.tenths(layout.width), packing.tenths(layout.height), boxes, edges]
