"""The slowest layers of engines, as ``compile --profile-layers`` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from trtdiag.analysis.compilation import EngineFacts
from trtdiag.engine.built_layers import LayerInfo
from trtdiag.report.shown_paths import short_paths
from trtdiag.report.terminal_layout import hanging
from trtdiag.wording import LONG_CHARS, amount, one_line

_MOST_LAYERS = 8
_MOST_OPS = 3
_LONGEST_OP_CHARS = 120


def slowest_text(engines: Sequence[EngineFacts]) -> RenderableType:
    """The slowest layers of all engines, with their ops and source lines; why, where an engine has no times."""
    timed = [(index, layer, layer.time_ms) for index, one in enumerate(engines) for layer in one.built.layers]
    told = [(index, layer, time) for index, layer, time in timed if time is not None]
    whole = sum(time for _, _, time in told)
    parts: list[RenderableType] = []
    if whole:
        head = f"{amount(len(told), 'layer')} timed, {whole:.3f} ms; the slowest are"
        parts += [Text(head), *_lines(sorted(told, key=lambda row: -row[2])[:_MOST_LAYERS], whole), Text()]
    for index, one in enumerate(engines):
        if one.built.why:
            parts.append(
                Text(one_line(f"engine {index}: no times of its layers: {one.built.why}", LONG_CHARS), style="yellow")
            )
    return Group(*parts)


def _lines(rows: Sequence[tuple[int, LayerInfo, float]], whole: float) -> Iterator[RenderableType]:
    """A list: ops and their lines are too long for the cells of a table."""
    left = len(f"{rows[0][2]:.4f}")
    for index, layer, time in rows:
        took = f"  {time:{left}.4f} ms {time / whole:4.0%}  "
        yield hanging(len(took), took, f"engine {index}: {_ops(layer)}")


def _ops(layer: LayerInfo) -> str:
    if not layer.ops:
        return one_line(f"none ({layer.kind or layer.name})")
    shown = [one_line(short_paths(str(origin)), _LONGEST_OP_CHARS) for origin in layer.ops[:_MOST_OPS]]
    hidden = len(layer.ops) - _MOST_OPS
    return "; ".join([*shown, *([f"and {amount(hidden, 'more op')}"] if hidden > 0 else [])])
