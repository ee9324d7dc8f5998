"""Memory over the execution order: weights, the tensors alive above them, and the op of the peak."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby

from trtdiag.report.charts.svg_shapes import WIDTH, chart, path, rect, text, told
from trtdiag.report.page import Part, cells, folding_table
from trtdiag.shapes.facts import MemoryEstimate, MemoryStep
from trtdiag.wording import bytes_text, one_line

_LEFT, _RIGHT, _TOP, _BOTTOM = 84.0, WIDTH - 8, 26.0, 216.0
_HEIGHT = 240.0
_TABLE_ROWS = 6


def memory_chart(memory: MemoryEstimate) -> Part | None:
    """The picture; ``None`` where the course is known at no sizes."""
    steps = memory.steps
    maxima = [step.max_bytes for step in steps if step.max_bytes is not None]
    usual = [step.usual_bytes for step in steps if step.usual_bytes is not None]
    leading, sizes = (maxima, "the maximum of every range") if maxima else (usual, "usual sizes")
    if not leading or not max(leading):
        return None
    weights = memory.weight_bytes
    top = weights + max(leading)

    def height(size: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * size / top

    def area(values: Sequence[int]) -> str:
        wide = (_RIGHT - _LEFT) / len(values)
        runs = [(up, len(list(alike))) for up, alike in groupby(f"{height(weights + each):.0f}" for each in values)]
        ends = accumulate(length for _, length in runs)
        line = "".join(f"V{up}H{_LEFT + wide * end:.0f}" for (up, _), end in zip(runs, ends, strict=True))
        return f"M{told(_LEFT)} {told(height(weights))}{line}V{told(height(weights))}Z"

    at = max(range(len(leading)), key=leading.__getitem__)
    peak = _LEFT + (_RIGHT - _LEFT) * (at + 0.5) / len(leading)
    marks = [path(area(leading), "series-3" if maxima else "series-2", f"tensors alive at {sizes}")]
    if maxima and usual:
        marks.append(path(area(usual), "series-2", "tensors alive at usual sizes"))
    marks.append(rect(_LEFT, height(weights), _RIGHT - _LEFT, _BOTTOM - height(weights), "series-1", "weights"))
    for share in (0.0, 0.5, 1.0):
        marks.append(text(_LEFT - 8, height(top * share) + 4, bytes_text(int(top * share)), "end"))
    side = "end" if peak > WIDTH / 2 else ""
    marks.append(path(f"M{told(peak)} {told(_TOP - 8)}V{told(_BOTTOM)}", "limit"))
    marks.append(text(peak + (-6 if side else 6), _TOP - 10, f"peak: {one_line(steps[at].node)}", side))
    marks.append(text((_LEFT + _RIGHT) / 2, _BOTTOM + 18, "ops in the order of execution", "middle"))
    legend = [("series-1", f"weights, {bytes_text(weights)}")]
    legend += [("series-2", f"tensors alive at usual sizes, at most {bytes_text(max(usual))}")] if usual else []
    legend += [("series-3", f"at the maximum of every range, at most {bytes_text(max(maxima))}")] if maxima else []
    label = (
        f"Memory over the execution order: {bytes_text(weights)} of weights, at most {bytes_text(max(leading))} of"
        f" tensors alive above them at {sizes}, reached at {one_line(steps[at].node)}."
    )
    return chart("Memory over the execution order", label, _HEIGHT, marks, _table(steps), legend)


def _table(steps: Sequence[MemoryStep]) -> Part:
    """The stretches with the largest sums, in the order of execution."""

    def size(at: int) -> int:
        return max(steps[at].max_bytes or 0, steps[at].usual_bytes or 0)

    largest = sorted(sorted(range(len(steps)), key=lambda at: -size(at))[:_TABLE_ROWS])
    rows = [
        (*cells(steps[at].node), bytes_text(steps[at].usual_bytes, "unknown"), bytes_text(steps[at].max_bytes))
        for at in largest
    ]
    heads = ("the fullest stretches, at", "usual sizes", "maximum of every range")
    found = folding_table(heads, rows, ("code", "number", "number"))
    assert found is not None  # a course has steps
    return found
