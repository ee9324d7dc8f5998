"""Each group as a small graph: boxes with their texts, edges between them, and what is shown as a chip instead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias
from unicodedata import east_asian_width

from trtdiag.report.drawing.graph_model import Group, Item, all_groups
from trtdiag.report.drawing.layout_types import LevelGraph
from trtdiag.report.drawing.nodes import DrawnNode, Role
from trtdiag.report.drawing.op_arguments import short_arguments
from trtdiag.wording import amount, one_line

MOST_ARROWS = 6
BOX_HEIGHT = 38.0
_CHAR_WIDTH = 6.7  # at 11 px; the widest of the monospaced fonts named in the style sheet is 0.602 em
_PADDING = 22.0
_LONGEST_LABEL = 34
_Producer: TypeAlias = tuple[int, int]  # a node, and the box of the level that it is in
_WIDTH_STEP = 4  # in characters: layers.9 and layers.10 get the same box, so their levels share one layout


@dataclass(frozen=True)
class Box:
    """One box of a level: ``number`` is the position of its ``group`` in the list of groups, else that of its node.

    ``chips`` are the positions of the nodes it reads that are not drawn as arrows.
    """

    group: Group | None
    number: int
    label: str
    sub: str
    chips: tuple[int, ...]


@dataclass(frozen=True)
class Level:
    """The inside of one group."""

    group: Group
    boxes: tuple[Box, ...]
    graph: LevelGraph


def levels(root: Group, nodes: Sequence[DrawnNode]) -> tuple[Level, ...]:
    """The level of every group, in the order of `all_groups`.  Cost: edges times depth."""
    return _Levels(root, nodes).all()


class _Levels:
    """Makes the levels of a graph.

    Args:
        root: Its groups.
        nodes: Its nodes.
    """

    def __init__(self, root: Group, nodes: Sequence[DrawnNode]) -> None:
        self._nodes, self._groups = nodes, all_groups(root)
        self._number = {id(group): at for at, group in enumerate(self._groups)}
        # For every drawn node its way down: at each level the group's number and the position of the box.
        self._homes: dict[int, tuple[tuple[int, int], ...]] = {}
        self._place(root, ())

    def _place(self, group: Group, above: tuple[tuple[int, int], ...]) -> None:
        for position, item in enumerate(group.items):
            here = (*above, (self._number[id(group)], position))
            if isinstance(item, Group):
                self._place(item, here)
            else:
                self._homes[item] = here

    def all(self) -> tuple[Level, ...]:
        return tuple(self._level(group, reads) for group, reads in zip(self._groups, self._reads(), strict=True))

    def _reads(self) -> list[dict[_Producer, dict[int, None]]]:
        """For each level: producer node and its box -> boxes that read it.  A read belongs where the ways part."""
        found: list[dict[_Producer, dict[int, None]]] = [{} for _ in self._groups]
        for position, reader in sorted(self._homes.items()):
            for source in self._nodes[position].reads:
                producer = self._homes.get(source)
                if producer is None or source == position:
                    continue
                depth = next(at for at, (a, b) in enumerate(zip(producer, reader, strict=False)) if a != b)
                level, box = reader[depth]
                found[level].setdefault((source, producer[depth][1]), {})[box] = None
        return found

    def _level(self, group: Group, reads: Mapping[_Producer, Mapping[int, None]]) -> Level:
        arrows: dict[tuple[int, int], None] = {}
        chips: dict[int, list[_Producer]] = {}
        for producer, readers in reads.items():
            for reader in readers:
                if len(readers) > MOST_ARROWS:
                    chips.setdefault(reader, []).append(producer)
                else:
                    arrows[producer[1], reader] = None
        led_to = {head for _, head in arrows}
        for reader, sources in chips.items():
            if reader not in led_to:  # a box never loses its last arrow
                arrows[sources.pop(0)[1], reader] = None
        boxes = tuple(
            self._box(item, group.modules, tuple(node for node, _ in chips.get(at, ())))
            for at, item in enumerate(group.items)
        )
        sizes = tuple((_width(box), BOX_HEIGHT) for box in boxes)
        return Level(group, boxes, LevelGraph(sizes, tuple(sorted(arrows))))

    def _box(self, item: Item, modules: AbstractSet[str], chips: tuple[int, ...]) -> Box:
        if isinstance(item, Group):
            kind = item.path if item.step is not None else item.module_type.rpartition(".")[2]
            sub = amount(item.ops, "op") + (f" · {kind}" if kind else "")
            return Box(item, self._number[id(item)], _short(item.label), _short(sub), chips)
        node = self._nodes[item]
        label = node.label
        # An op of a dissolved module keeps its module's own name beside it.
        if node.role is Role.OP and node.origin.module_path not in modules:
            label = f"{label} {node.origin.module_path.rpartition('.')[2]}"
        return Box(
            None, item, _short(label), _short(short_arguments(node.shape, node.arguments, _LONGEST_LABEL)), chips
        )


def _short(text: str) -> str:
    return one_line(text, _LONGEST_LABEL)


@lru_cache(maxsize=4096)  # boxes say much the same
def _cells(text: str) -> int:
    """How many characters wide a text is: ideographs and the like are two."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _width(box: Box) -> float:
    # A box that opens has "+ " before its label.
    label = _cells(box.label) + (2 if box.group is not None else 0)
    chars = max(label, _cells(box.sub), 6)
    steps = math.ceil(chars / _WIDTH_STEP) * _WIDTH_STEP
    return round(steps * _CHAR_WIDTH + _PADDING, 1)
