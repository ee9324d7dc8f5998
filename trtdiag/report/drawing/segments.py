"""The strip of engines and PyTorch in the order of execution."""

from __future__ import annotations

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.report.page import PLAIN_BOX, Part
from trtdiag.wording import amount, bytes_text, one_line

MOST_SEGMENTS = 24
"""Engines with a table of their own; a program of more has another problem than what enters each."""
MOST_STEPS = 60
PYTORCH = "PyTorch"

_BOX_WIDTH, _BOX_HEIGHT = 164, 40
_GAP_X, _GAP_Y, _MARGIN, _COLUMNS = 24, 26, 10, 6
_LONGEST = 22


def steps_of(facts: PartitionFacts) -> list[tuple[str, list[str]]]:
    """The steps of the execution: ``engine 0`` or ``PyTorch``, and its ops."""
    parts = facts.partitioned
    targets = {op.name: op.target for op in parts.plan.graph.ops}
    found = []
    for step in parts.steps:
        names = step.torch_nodes if step.segment is None else parts.segments[step.segment].ops
        name = PYTORCH if step.segment is None else f"engine {step.segment}"
        found.append((name, [targets[each] for each in names if each in targets]))
    return found


def strip(facts: PartitionFacts) -> Part:
    """Engines and stretches of PyTorch in the order of execution, in rows read from left to right."""
    boxes: list[Part] = []
    for step, (name, ops) in zip(facts.partitioned.steps[:MOST_STEPS], steps_of(facts), strict=False):
        count = amount(len(ops), "op")
        if step.segment is not None:
            boxes.append(_box(len(boxes), "engine", name, f"{count} · {_crossing(facts, step.segment)}"))
        else:
            told = dict.fromkeys(op.split(".")[1] if op.count(".") == 2 else op for op in ops)
            boxes.append(_box(len(boxes), "torch", f"{name}: {count}", ", ".join(told)))
    rows = max(1, -(-len(boxes) // _COLUMNS))
    columns = min(max(1, len(boxes)), _COLUMNS)
    return {
        "width": str(2 * _MARGIN + columns * _BOX_WIDTH + (columns - 1) * _GAP_X),
        "height": str(2 * _MARGIN + rows * _BOX_HEIGHT + (rows - 1) * _GAP_Y),
        "boxes": boxes,
        "edges": [_arrow(at) for at in range(1, len(boxes))],
    }


def _crossing(facts: PartitionFacts, index: int) -> str:
    found = [b for b in facts.partitioned.boundaries if b.producer == index or index in b.consumers]
    sizes = [boundary.bytes.opt for boundary in found]
    return "size unknown" if any(size is None for size in sizes) else bytes_text(sum(size or 0 for size in sizes))


def _corner(at: int) -> tuple[int, int]:
    row, column = divmod(at, _COLUMNS)
    return _MARGIN + column * (_BOX_WIDTH + _GAP_X), _MARGIN + row * (_BOX_HEIGHT + _GAP_Y)


def _box(at: int, kind: str, label: str, sub: str) -> Part:
    x, y = _corner(at)
    return {
        "x": str(x),
        "y": str(y),
        "width": str(_BOX_WIDTH),
        "height": str(_BOX_HEIGHT),
        "classes": f"box {kind}",
        "label": one_line(label, _LONGEST),
        "sub": one_line(sub, _LONGEST),
        "text_x": str(x + 9),
        "label_y": str(y + 17),
        "sub_y": str(y + 31),
        **PLAIN_BOX,
        # What the box says itself is not said again.
        "title": one_line(f"{label}: {sub}", 1000) if max(len(label), len(sub)) > _LONGEST else "",
    }


def _arrow(at: int) -> str:
    x, y = _corner(at)
    before_x, before_y = _corner(at - 1)
    middle = y + _BOX_HEIGHT / 2
    if y == before_y:
        return f"M{before_x + _BOX_WIDTH} {middle}L{x} {middle}"
    # From the end of a row to the beginning of the next.
    lane = y - _GAP_Y / 2
    down = before_x + _BOX_WIDTH / 2
    return f"M{down} {before_y + _BOX_HEIGHT}L{down} {lane}L{x + _BOX_WIDTH / 2} {lane}L{x + _BOX_WIDTH / 2} {y}"
