"""Precision by colour: the share of ops by the dtype that they give, and of the layers that were built of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.engine.built_layers import LayerInfo
from trtdiag.report.charts.svg_shapes import SERIES, Bar, BarRow, bar_marks, chart
from trtdiag.report.page import Part, table
from trtdiag.wording import dtype_text


def precision_chart(facts: PartitionFacts, built: Sequence[LayerInfo] = ()) -> Part | None:
    """The picture; ``None`` where all ops give the same dtype, which words say as well.

    Args:
        facts: The plan.
        built: The layers of engines, where they are told.
    """
    parts, dtypes = facts.partitioned, facts.plan.types.engine
    inside = (node for segment in parts.segments for node in segment.ops)
    left = (each.node for each in parts.fallback if each.computes)
    counts = {"ops in engines": _counted(inside, dtypes), "ops in PyTorch": _counted(left, dtypes)}
    counts["layers as built"] = Counter(layer.dtypes[0] for layer in built if layer.dtypes)
    every = sum(counts.values(), Counter[str]())
    if len(every) < 2:
        return None
    order = [name for name, _ in sorted(every.items(), key=lambda item: (-item[1], item[0]))]
    inks = dict(zip(order, (*SERIES[:-1], *[SERIES[-1]] * len(order)), strict=False))
    rows = [_row(what, found, inks) for what, found in counts.items() if found]
    lines = [
        (what, name, f"{found[name]:,}", f"{found[name] / sum(found.values()):.0%}")
        for what, found in counts.items()
        for name in order
        if found[name]
    ]
    drawn = bar_marks(rows)
    label = f"Share of ops by the dtype that they give: {every[order[0]] / sum(every.values()):.0%} give {order[0]}."
    numbers = table(("of", "dtype", "number", "share"), lines, kinds=("", "code", "number", "number"))
    named = list(zip(SERIES, (*order[: len(SERIES) - 1], ", ".join(order[len(SERIES) - 1 :])), strict=False))
    return chart(
        "Precision",
        label,
        drawn.height,
        drawn.marks,
        numbers,
        [(ink, name) for ink, name in named if name],
        width=drawn.width,
    )


def _row(what: str, found: Counter[str], inks: Mapping[str, str]) -> BarRow:
    total = sum(found.values())
    begin, bars = 0, []
    for name, ink in inks.items():
        if found[name]:
            title = f"{name}: {found[name]:,} of {total:,}"
            bars.append(Bar(begin / total, (begin + found[name]) / total, ink, title))
            begin += found[name]
    return BarRow(what, tuple(bars), f"{total:,}")


def _counted(nodes: Iterable[str], dtypes: Mapping[str, tuple[object, ...]]) -> Counter[str]:
    """Ops by the dtype of their first result; those that give sizes alone are left out."""
    return Counter(dtype_text(dtypes[node][0]) for node in nodes if dtypes.get(node))
