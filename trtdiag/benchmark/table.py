"""What ``bench`` prints.

Names go in as rich ``Text``, never as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from trtdiag.benchmark.facts import AS_EXPORTED, Benchmark, SizeResult, WayResult
from trtdiag.report.terminal_layout import hanging, plain_table
from trtdiag.report.view_speed import ms_text
from trtdiag.wording import LONG_CHARS, amount, listed, one_line, visible


def bench_text(found: Benchmark, width: int) -> RenderableType:
    """For each set of sizes a table, or a list where so many columns of the terminal are too few for it."""
    tensorrt = f", TensorRT {found.tensorrt}" if found.tensorrt else ""
    head = (
        f"on {found.device}, torch {found.torch}, engines by {found.backend}{tensorrt}, {amount(found.rounds, 'round')}"
    )
    parts: list[RenderableType] = [Text(head, style="bold")]
    for result in found.results:
        parts += [Text(), *_head(result), *_times(result, width)]
        parts += [
            hanging(2, (f"{way.way}: ", "yellow"), one_line(f"cannot run: {way.failed}", LONG_CHARS))
            for way in result.ways
            if way.failed
        ]
    return Group(*parts)


def _head(result: SizeResult) -> Iterator[RenderableType]:
    sizes = ", ".join(f"{name}={size}" for name, size in result.sizes.items())
    label = f"{result.label} ({sizes})" if sizes and sizes != result.label else result.label
    yield hanging(2, visible(label))
    if result.inputs:
        yield hanging(4, "  ", visible(listed([one_line(each) for each in result.inputs])))


def _times(result: SizeResult, width: int) -> Iterator[RenderableType]:
    ran = [way for way in result.ways if not way.failed]
    columns = {name: [cell(way) for way in ran] for name, cell in _CELLS.items()}
    known = {name: cells for name, cells in columns.items() if any(cells)}
    rows = list(zip(*known.values(), strict=True))
    gaps = 2 * (len(known) - 1)
    if sum(max(map(len, (name, *cells))) for name, cells in known.items()) + gaps <= width:
        table = plain_table(list(known)[:1], list(known)[1:])
        for row in rows:
            table.add_row(*map(Text, row))
        yield table
        return
    for way, *cells in rows:
        told = ", ".join(f"{name} {cell}" for name, cell in zip(list(known)[1:], cells, strict=True) if cell)
        yield hanging(2, f"{way}: {told}")


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
