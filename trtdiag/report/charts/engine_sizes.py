"""The sizes of engines by the GPU generation that they were built for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trtdiag.analysis.compilation import EngineFacts
from trtdiag.report.charts.svg_shapes import Bar, BarRow, bar_marks, chart
from trtdiag.report.page import Part, table
from trtdiag.wording import amount, bytes_text, one_line


def engine_sizes_chart(engines: Sequence[EngineFacts]) -> Part | None:
    """The picture; ``None`` where no engine was built for a generation of its own."""
    sizes: Counter[str] = Counter()
    for engine in engines:
        sizes.update(engine.gpu_bytes)
    most = max(sizes.values(), default=0)
    if not most:
        return None
    rows = [BarRow(gpu, (Bar(0.0, size / most, "engine", gpu),), bytes_text(size)) for gpu, size in sizes.items()]
    drawn = bar_marks(rows)
    largest = max(sizes, key=sizes.__getitem__)
    label = (
        f"Bytes of engines by GPU generation, {amount(len(sizes), 'generation')}; the largest are those for {largest}."
    )
    lines = [(one_line(gpu), bytes_text(size), f"{size:,}") for gpu, size in sizes.items()]
    numbers = table(("GPU generation", "engines", "bytes"), lines, kinds=("code", "number", "number"))
    return chart("Engine sizes by GPU generation", label, drawn.height, drawn.marks, numbers, width=drawn.width)
