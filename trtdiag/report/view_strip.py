"""The execution as one bar: engines and stretches of PyTorch, as wide as they have ops."""

from __future__ import annotations

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.report.drawing.segments import PYTORCH, steps_of
from trtdiag.report.page import Part
from trtdiag.wording import amount, one_line

_WIDTH = 1200
"""Pixels of a bar on a usual screen; the page draws it as wide as it has room."""
_LEAST = 3
"""Pixels: of 5,000 ops a single one in PyTorch would be a quarter of one, and nobody would see it."""
_CHAR = 7
MOST_PIECES = 200


def strip_view(facts: PartitionFacts) -> Part | None:
    """The bar; ``None`` where there is nothing to run."""
    whole = [(step, name, ops) for step, (name, ops) in enumerate(steps_of(facts)) if ops]
    if not whole:
        return None
    drawn = whole[:MOST_PIECES]
    free = _WIDTH - _LEAST * len(drawn)
    every = sum(len(ops) for *_, ops in drawn)
    pieces, x = [], 0.0
    for step, name, ops in drawn:
        width = _LEAST + free * len(ops) / every
        pieces.append(_piece(name, ops, x, width) | {"step": str(step)})
        x += width
    alone = [ops for _, name, ops in whole if name == PYTORCH]
    badges = [amount(len(whole) - len(alone), "engine")]
    if alone:
        calls = amount(sum(map(len, alone)), "op")
        badges.append(f"{amount(len(alone), 'stretch', 'stretches')} of PyTorch, {calls}")
    hidden = len(whole) - len(drawn)
    note = f"{amount(hidden, 'more step')} not drawn." if hidden else ""
    return {"pieces": pieces, "badges": badges, "note": note}


def _piece(name: str, ops: list[str], x: float, width: float) -> Part:
    count = amount(len(ops), "op")
    told = f" ({', '.join(dict.fromkeys(ops))})" if name == PYTORCH else ""
    return {
        "x": _share(x),
        "width": _share(width),
        "kind": "torch" if name == PYTORCH else "engine",
        "title": one_line(f"{name}: {count}{told}", 400),
        "label": next((text for text in (f"{name} · {count}", name) if len(text) * _CHAR + 8 <= width), ""),
        "label_x": _share(x + width / 2),
    }


def _share(pixels: float) -> str:
    return f"{100 * pixels / _WIDTH:.2f}%"
