"""What goes into engines, as the page shows it."""

from __future__ import annotations

from collections.abc import Mapping

from torch.fx import Node

from trtdiag.analysis.backend_times import INDUCTOR
from trtdiag.analysis.fallbacks import PartitionFacts, summed
from trtdiag.analysis.result import Analysis
from trtdiag.graph.segment import Segment
from trtdiag.partition.facts import Boundary, Bytes
from trtdiag.report.drawing.segments import MOST_SEGMENTS, MOST_STEPS, strip
from trtdiag.report.drawing.shape_words import ShapeWords
from trtdiag.report.engine_words import engines_line, tried_line, tried_table
from trtdiag.report.page import Long, Part, cells, folding_table, table
from trtdiag.symbolic import Condition, Expr, to_text
from trtdiag.wording import amount, bytes_text, dtype_text, one_line


def partition_view(analysis: Analysis, facts: PartitionFacts) -> Part:
    """The section of the page."""
    words = _Words(analysis, facts)
    parts = facts.partitioned
    steps = len(parts.steps)
    note = f"The first {MOST_STEPS} of {steps:,} steps." if steps > MOST_STEPS else ""
    hidden = len(parts.segments) - MOST_SEGMENTS
    return {
        "summary": _summary(analysis, facts),
        "strip": strip(facts) if steps > 1 else None,
        "strip_note": note,
        "segments": [_segment(segment, words) for segment in parts.segments[:MOST_SEGMENTS]],
        "more_segments": f"{amount(hidden, 'more engine')}: see the JSON report" if hidden > 0 else "",
        "boundaries": folding_table(
            ("tensor", "from", "to", "shape", "min", "usual", "max"),
            [words.crossing(boundary) for boundary in sorted(filter(_is_inner, parts.boundaries), key=_weight)],
            ("code", "", "", "code", "number", "number", "number"),
        ),
        "tried_summary": "" if analysis.tried is None else f"{tried_line(analysis.tried)}.",
        "tried": None if analysis.tried is None else tried_table(analysis.tried),
    }


def _summary(analysis: Analysis, facts: PartitionFacts) -> str:
    parts = facts.partitioned
    text = f"For {engines_line(analysis)}"
    inner = summed(b.bytes for b in parts.boundaries if _is_inner(b))
    if len(parts.steps) > 1:
        text += f"; {bytes_text(inner.opt, 'an unknown amount')} cross between engines and PyTorch at usual sizes,"
        text += " inputs and outputs of the program not counted"
    return text + ". The graph is the lowered one: an op without a converter is taken apart where it can be."


def _weight(boundary: Boundary) -> int:
    """Orders boundaries by bytes at usual sizes, the largest first; those of unknown size before all others."""
    return -(1 << 62 if boundary.bytes.opt is None else boundary.bytes.opt)


def _is_inner(boundary: Boundary) -> bool:
    """Whether a tensor crosses only because of the split."""
    return not boundary.program_input and bool(boundary.consumers or boundary.read_by_torch)


class _Words:
    """Shapes and dtypes of the lowered graph's nodes."""

    def __init__(self, analysis: Analysis, facts: PartitionFacts) -> None:
        self._shapes = ShapeWords(analysis)
        self._nodes: Mapping[str, Node] = {node.name: node for node in facts.plan.lowered.graph_module.graph.nodes}
        self._engine = facts.plan.types.engine
        self._bytes = {boundary.tensor: boundary.bytes for boundary in facts.partitioned.boundaries}
        self._names = analysis.program.words
        engines = () if analysis.compilation is None else analysis.compilation.engines
        self.compiled = {index for index, engine in enumerate(engines) if engine.manifest.backend == INDUCTOR}
        """Engines that are code of AOTInductor."""

    def shape(self, name: str) -> str:
        return self._shapes.of(name, self._nodes[name])[0] if name in self._nodes else ""

    def size(self, expr: Expr | Condition | None) -> str:
        return "a size" if expr is None else to_text(expr, self._names)

    def tensor(self, way: str, name: str) -> tuple[str, ...]:
        engine = self._engine.get(name, ())
        count = self._bytes.get(name, Bytes(None, None, None))
        return way, one_line(name), self.shape(name), dtype_text(engine[0]) if engine else "", *_ends(count)

    def crossing(self, boundary: Boundary) -> tuple[str, ...]:
        source = "PyTorch" if boundary.producer is None else f"engine {boundary.producer}"
        readers = [f"engine {index}" for index in boundary.consumers]
        readers += ["PyTorch"] * boundary.read_by_torch + ["output"] * boundary.program_output
        way = source, ", ".join(readers)
        return one_line(boundary.tensor), *way, self.shape(boundary.tensor), *_ends(boundary.bytes)


def _ends(count: Bytes) -> tuple[str, str, str]:
    return bytes_text(count.min, "unknown"), bytes_text(count.opt, "unknown"), bytes_text(count.max)


def _segment(segment: Segment, words: _Words) -> Part:
    views = len(segment.ops) - segment.work_ops
    text = amount(len(segment.ops), "op")
    text += f" ({views:,} of them {'a view' if views == 1 else 'views'})" if views else ""
    text += f", {amount(len(segment.constants), 'weight')}, {amount(len(segment.inputs), 'input')}, "
    text += f"{amount(len(segment.outputs), 'output')}"
    text += ", code of AOTInductor" if segment.index in words.compiled else ""
    rows = [words.tensor("in", name) for name in segment.inputs]
    rows += [("in", one_line(size.node), words.size(size.expr), "int64", "", "", "") for size in segment.entering_sizes]
    rows += [words.tensor("out", name) for name in segment.outputs]
    heads = ("", "tensor", "shape", "in the engine", "min", "usual", "max")
    kinds = ("", "code", "code", "", "number", "number", "number")
    return {
        "title": f"Engine {segment.index}",
        "summary": text,
        "crossing": folding_table(heads, rows, kinds) or table(heads, ()),
        "sizes": folding_table(
            ("size that enters", "because"),
            [cells(size.node, Long(size.why)) for size in segment.entering_sizes],
        ),
    }
