"""What ``bench`` prints.

Names go in as rich ``Text``, never as markup.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.text import Text

from trtdiag.benchmark.facts import AS_EXPORTED, Benchmark, SizeResult, WayResult
from trtdiag.report.terminal_layout import plain_table
from trtdiag.report.view_speed import ms_text
from trtdiag.wording import one_line


def bench_text(found: Benchmark) -> RenderableType:
    """A table for each set of sizes."""
    tensorrt = f", TensorRT {found.tensorrt}" if found.tensorrt else ""
    head = f"on {found.device}, torch {found.torch}, engines by {found.backend}{tensorrt}, {found.rounds} rounds"
    parts: list[RenderableType] = [Text(head, style="bold")]
    for result in found.results:
        parts += [Text(), _head(result), _table(result)]
        parts += [
            Text.assemble((f"{way.way}: ", "yellow"), one_line(f"cannot run: {way.failed}"), overflow="fold")
            for way in result.ways
            if way.failed
        ]
    return Group(*parts)


def _head(result: SizeResult) -> Text:
    sizes = ", ".join(f"{name}={size}" for name, size in result.sizes.items())
    label = f"{result.label} ({sizes})" if sizes and sizes != result.label else result.label
    return Text(one_line(f"{label}: {'; '.join(result.inputs)}"), overflow="fold")


def _table(result: SizeResult) -> RenderableType:
    ran = [way for way in result.ways if not way.failed]
    columns = {name: [cell(way) for way in ran] for name, cell in _CELLS.items()}
    known = {name: cells for name, cells in columns.items() if any(cells)}
    table = plain_table(list(known)[:1], list(known)[1:])
    for row in zip(*known.values(), strict=True):
        table.add_row(*map(Text, row))
    return table


_CELLS: dict[str, Callable[[WayResult], str]] = {
    "": lambda way: way.way if way.computes in ("", AS_EXPORTED) else f"{way.way} ({way.computes})",
    "ms": lambda way: "" if way.ms is None else ms_text(way.ms.median),
    "tenths": lambda way: "" if way.ms is None else f"{ms_text(way.ms.low)}..{ms_text(way.ms.high)}",
    "alone": lambda way: "" if way.alone_ms is None else ms_text(way.alone_ms.median),
    "to trtdiag": lambda way: "" if way.ratio is None else f"{way.ratio:.2f}x",
    "calls/s": lambda way: "" if way.per_s is None else f"{way.per_s:,.0f}",
    "build s": lambda way: "" if way.build_s is None else f"{way.build_s:.1f}",
    "MiB": lambda way: "" if way.bytes is None else f"{way.bytes / 2**20:,.1f}",
}
"""What each column has of a way; one that is empty throughout is left out."""
