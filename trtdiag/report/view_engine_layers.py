"""The layers of built engines as the page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtdiag.engine.built_layers import LayerInfo, LayerTensor
from trtdiag.frontend.program import OpOrigin
from trtdiag.network.network import Origin
from trtdiag.report.charts.times import layers_chart
from trtdiag.report.page import Part, cell, shown
from trtdiag.report.source_context import short_place
from trtdiag.runtime.engine_layers import ToldLayers
from trtdiag.wording import LONG_CHARS, amount, listed, one_line

MOST_ROWS = 400
_SHOWN_OPS = 6
_SHOWN_MODULES = 2
_SHOWN_LINES = 3
_LISTED_OPS = 100
_SLOWEST = 5
_DERIVED = "The engine does not name all of them: they are what its outputs are computed from and no other layer has."


def engine_layers_view(told: ToldLayers, origins: Mapping[str, OpOrigin]) -> Part:
    """The table of one engine; ``origins`` are those of the lowered graph's nodes, for their modules."""
    layers = told.layers
    timed = any(layer.time_ms is not None for layer in layers)
    whole = sum(layer.time_ms or 0.0 for layer in layers)
    # What takes longest is what one looks for; the first column leads back to the order of execution.
    order = sorted(range(len(layers)), key=lambda index: -(layers[index].time_ms or 0.0))
    hidden = len(layers) - MOST_ROWS
    time = f", {_milliseconds(whole)} ms" if timed else ""
    return {
        "label": f"Layers as built: {amount(len(layers), 'layer')}{time}" if layers else "",
        "summary": _summary(layers, whole if timed else None) if layers else "",
        "times": layers_chart(layers),
        "rows": [_row(index, layers[index], whole, origins) for index in order[:MOST_ROWS]],
        "more": f"{amount(hidden, 'more layer')}: see the JSON report" if hidden > 0 else "",
        "timed": timed,
        "why": one_line(told.why, LONG_CHARS),
    }


def _summary(layers: tuple[LayerInfo, ...], whole: float | None) -> str:
    moving = sum(not layer.ops for layer in layers)
    fused = sum(len(layer.ops) > 1 for layer in layers)
    text = f"{amount(fused, 'layer')} fused from several ops, {amount(moving, 'layer')} without an op: to move or"
    text += " prepare data."
    if whole:
        times = sorted((layer.time_ms or 0.0 for layer in layers), reverse=True)
        if len(times) > _SLOWEST:
            text += f" The slowest {_SLOWEST} take {sum(times[:_SLOWEST]) / whole:.0%} of the time."
        moved = sum(layer.time_ms or 0.0 for layer in layers if not layer.ops)
        text += f" Layers without an op take {moved / whole:.0%}."
        text += " Timed at the sizes to tune for, layer by layer, which slows the engine down."
    return text


def _row(index: int, layer: LayerInfo, whole: float, origins: Mapping[str, OpOrigin]) -> Part:
    ops = tuple(_op(origin, origins.get(origin.node)) for origin in layer.ops[:_LISTED_OPS])
    frames = dict.fromkeys(origin.frame for origin in layer.ops if origin.frame is not None)
    lines = [{"short": short_place(frame), "full": cell(frame)} for frame in frames]
    return {
        "place": str(index),
        "nodes": listed([one_line(origin.node) for origin in layer.ops], _SHOWN_OPS),
        "modules": listed(list(dict.fromkeys(op["module"] for op in ops if op["module"])), _SHOWN_MODULES),
        "lines": lines[:_SHOWN_LINES],
        "ops": ops,
        "all": amount(len(layer.ops), "op") + ("" if layer.named else ", derived"),
        "moves": not layer.ops,
        "note": "" if layer.named else _DERIVED,
        "kind": one_line(layer.kind),
        "name": one_line(layer.name, LONG_CHARS),
        "precision": one_line(_precision(layer)),
        "tactic": one_line(layer.tactic, LONG_CHARS),
        "time": "" if layer.time_ms is None else _milliseconds(layer.time_ms),
        "share": "" if layer.time_ms is None or not whole else f"{layer.time_ms / whole:.1%}",
    }


def _precision(layer: LayerInfo) -> str:
    """``float32``, or ``float32 → float16`` where it writes another than it reads; integers where there is no float."""
    read, written = (", ".join(_dtypes(tensors)) for tensors in (layer.inputs, layer.outputs))
    return f"{read} → {written}" if read and written and read != written else written or read


def _dtypes(tensors: Sequence[LayerTensor]) -> list[str]:
    told = list(dict.fromkeys(tensor.dtype for tensor in tensors if tensor.dtype))
    return [dtype for dtype in told if "float" in dtype] or told


def _op(origin: Origin, known: OpOrigin | None) -> Part:
    frame = origin.frame
    return {
        **shown(origin, "op", "node"),
        "module": cell(known and known.module_path),
        "where": cell(frame),
        "code": one_line(frame.code.strip()) if frame is not None else "",
    }


def _milliseconds(value: float) -> str:
    return f"{value:.4f}" if value < 1 else f"{value:,.3f}"
