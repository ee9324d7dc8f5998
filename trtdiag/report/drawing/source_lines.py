"""The lines of source that nodes come from, by file: what the source pane beside the graph shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TypeAlias

from trtdiag.graph.source import Frame, Stack
from trtdiag.report.source_context import shown_lines

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
