"""The execution as one bar: engines and stretches of PyTorch, as wide as they have ops."""

from __future__ import annotations

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.partition.facts import Step
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
    parts = facts.partitioned
    targets = {op.name: op.target for op in parts.plan.graph.ops}
    whole = [(step, ops) for step in parts.steps if (ops := _ops(step, facts, targets))]
    if not whole:
        return None
    steps = whole[:MOST_PIECES]
    free = _WIDTH - _LEAST * len(steps)
    every = sum(len(ops) for _, ops in steps)
    pieces, x = [], 0.0
    for step, ops in steps:
        width = _LEAST + free * len(ops) / every
        pieces.append(_piece(step, ops, x, width))
        x += width
    engines = sum(step.segment is not None for step, _ in whole)
    alone = [(step, ops) for step, ops in whole if step.segment is None]
    badges = [amount(engines, "engine")]
    if alone:
        calls = amount(sum(len(ops) for _, ops in alone), "op")
        badges.append(f"{amount(len(alone), 'stretch', 'stretches')} of PyTorch, {calls}")
    hidden = len(whole) - len(steps)
    return {
        "pieces": pieces,
        "badges": badges,
        "note": f"{amount(hidden, 'more step')} not drawn." if hidden else "",
    }


def _ops(step: Step, facts: PartitionFacts, targets: dict[str, str]) -> list[str]:
    names = step.torch_nodes if step.segment is None else facts.partitioned.segments[step.segment].ops
    return [targets[name] for name in names if name in targets]


def _piece(step: Step, ops: list[str], x: float, width: float) -> Part:
    if step.segment is None:
        kind, name = "torch", "PyTorch"
        told = ", ".join(dict.fromkeys(ops))
        label = "PyTorch"
    else:
        kind, name = "engine", f"engine {step.segment}"
        told = ""
        label = name
    count = amount(len(ops), "op")
    wide = f"{label} · {count}"
    shown = next((text for text in (wide, label) if len(text) * _CHAR + 8 <= width), "")
    return {
        "x": _share(x),
        "width": _share(width),
        "kind": kind,
        "title": one_line(f"{name}: {count}" + (f" ({told})" if told else ""), 400),
        "label": shown,
        "label_x": _share(x + width / 2),
    }


def _share(pixels: float) -> str:
    return f"{100 * pixels / _WIDTH:.2f}%"
