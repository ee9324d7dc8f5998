"""Where time goes: the ways to run a program that were measured, and the layers of a built engine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from trtdiag.engine.built_layers import LayerInfo
from trtdiag.report.charts.svg_shapes import Bar, BarRow, bar_marks, chart
from trtdiag.report.comparison import Body
from trtdiag.report.page import Part, table
from trtdiag.wording import listed, one_line

_MOST_WAYS = 16
_MOST_MEDIANS = 2
_MOST_LAYERS = 12
_SHOWN_OPS = 2


def ways_chart(title: str, ways: Sequence[Body]) -> Part | None:
    """The median of each way that was measured, with the tenths around it; ``None`` where none could run."""
    ran = [way for way in ways if way["ms"] is not None][:_MOST_WAYS]
    if not any(way["ms"]["high"] for way in ran):
        return None
    # A tenth that something else disturbed runs out of the picture rather than that medians become alike.
    longest = max(way["ms"]["median"] for way in ran)
    most = min(max(way["ms"]["high"] for way in ran), _MOST_MEDIANS * longest or math.inf)
    rows, lines = [], []
    for way in ran:
        low, median, high = (way["ms"][key] for key in ("low", "median", "high"))
        bars = (
            Bar(0.0, median / most, "series-1", f"median {median:.3g} ms"),
            Bar(low / most, high / most, "spread", f"tenths {low:.3g}..{high:.3g} ms"),
        )
        rows.append(BarRow(way["way"], bars, f"{median:.3g} ms"))
        lines.append((one_line(way["way"]), *(f"{each:.3g}" for each in (median, low, high))))
    drawn = bar_marks(rows)
    fastest = min(ran, key=lambda way: float(way["ms"]["median"]))
    label = f"Milliseconds of a call by way to run the program; the fastest is {fastest['way']}."
    heads = ("way", "median ms", "first tenth", "last tenth")
    numbers = table(heads, lines, kinds=("", "number", "number", "number"))
    return chart(
        title,
        label,
        drawn.height,
        drawn.marks,
        numbers,
        (("series-1", "median"), ("spread", "first to last tenth")),
        width=drawn.width,
    )


def layers_chart(layers: Sequence[LayerInfo]) -> Part | None:
    """The layers that take longest, and all others together; ``None`` where they were not timed."""
    known = ((layer.time_ms, at) for at, layer in enumerate(layers))
    timed = sorted(((time, at) for time, at in known if time is not None and math.isfinite(time)), reverse=True)
    whole = sum(time for time, _ in timed)
    if not whole:
        return None
    rows, lines = [], []
    often = Counter(_name(layer) for layer in layers)
    shown = [(_name(layers[at], often), time, not layers[at].ops) for time, at in timed[:_MOST_LAYERS]]
    rest = sum(time for time, _ in timed[_MOST_LAYERS:])
    shown += [(f"{len(timed) - _MOST_LAYERS:,} others", rest, False)] if rest else []
    most = max(time for _, time, _ in shown)
    for name, time, moves in shown:
        ink = "series-3" if moves else "series-1"
        rows.append(BarRow(name, (Bar(0.0, time / most, ink, name),), f"{time:.4g} ms, {time / whole:.0%}"))
        lines.append((name, f"{time:.4f}", f"{time / whole:.1%}"))
    drawn = bar_marks(rows)
    label = f"Time by layer of the engine, {whole:.4g} ms in all; {shown[0][0]} takes most, {shown[0][1] / whole:.0%}."
    legend = (("series-1", "computes ops"), ("series-3", "moves or prepares data"))
    numbers = table(("layer", "ms", "share"), lines, kinds=("", "number", "number"))
    return chart("Where time goes", label, drawn.height, drawn.marks, numbers, legend, width=drawn.width)


def _name(layer: LayerInfo, often: Mapping[str, int] | None = None) -> str:
    """Its ops, with what kind of layer it is where several are of the same ops."""
    ops = listed([one_line(origin.node) for origin in layer.ops], _SHOWN_OPS)
    kind = f" {layer.kind}" if often and often.get(ops, 0) > 1 else ""
    return one_line(f"{ops}{kind}" if ops else layer.kind or layer.name)
