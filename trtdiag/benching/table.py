"""What ``bench`` prints.

Names go in as rich ``Text``, never as markup.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trtdiag.benching.facts import Benchmark, SizeResult, WayResult
from trtdiag.report.text import one_line

_COLUMNS = ("ms", "tenths", "alone ms", "to trtdiag", "calls/s", "build s", "MiB")


def bench_text(found: Benchmark) -> RenderableType:
    """A table for each set of sizes."""
    tensorrt = f", TensorRT {found.tensorrt}" if found.tensorrt else ""
    head = f"on {found.device}, torch {found.torch}, engines by {found.backend}{tensorrt}, {found.rounds} rounds"
    parts: list[RenderableType] = [Text(head, style="bold")]
    for result in found.results:
        parts += [Text(), _head(result), _table(result)]
        parts += [_refused(way) for way in result.ways if way.failed]
    return Group(*parts)


def _head(result: SizeResult) -> Text:
    sizes = ", ".join(f"{name}={size}" for name, size in result.sizes.items())
    label = f"{result.label} ({sizes})" if sizes and sizes != result.label else result.label
    return Text(one_line(f"{label}: {'; '.join(result.inputs)}"), overflow="fold")


def _table(result: SizeResult) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("computes in", overflow="fold")
    for way in result.ways:
        if not way.failed:
            table.add_row(Text(way.way), *map(Text, _cells(way)), Text(way.computes))
    return table


def _cells(way: WayResult) -> tuple[str, ...]:
    assert way.ms is not None
    return (
        _ms(way.ms.median),
        f"{_ms(way.ms.low)}..{_ms(way.ms.high)}",
        "" if way.alone_ms is None else _ms(way.alone_ms.median),
        "" if way.ratio is None else f"{way.ratio:.2f}x",
        "" if way.per_s is None else f"{way.per_s:,.0f}",
        "?" if way.build_s is None else f"{way.build_s:.1f}",
        "?" if way.bytes is None else f"{way.bytes / 2**20:,.1f}",
    )


def _ms(value: float) -> str:
    """Three digits that count."""
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _refused(way: WayResult) -> Text:
    return Text.assemble((f"{way.way}: ", "yellow"), one_line(f"cannot run: {way.failed}"), overflow="fold")
