"""What goes into engines, as the page shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch.fx import Node

from trtdiag.analysis.fallbacks import FallbackGroup, PartitionFacts, summed
from trtdiag.analysis.result import Analysis
from trtdiag.partition.facts import Boundary, Bytes, Cause, Fallback, Segment
from trtdiag.report.drawing.picture import Picture
from trtdiag.report.drawing.segments import MOST_SEGMENTS, MOST_STEPS, heaviest, segment_pictures, strip
from trtdiag.report.drawing.shape_words import ShapeWords
from trtdiag.report.engine_words import engines_line
from trtdiag.report.text import amount, bytes_text, one_line
from trtdiag.report.view import PartitionView, SegmentView, TableView
from trtdiag.report.view_types import folding_table
from trtdiag.symbolic.text import to_text

_MOST_LINES = 3
_CAUSES = {Cause.KEPT: "kept by you", Cause.SMALL: "segment too small"}


def partition_view(analysis: Analysis, facts: PartitionFacts, layout: str) -> PartitionView:
    """The section of the page; the graphs of the engines are laid out as ``layout`` says."""
    words = _Words(analysis, facts)
    parts = facts.partitioned
    drawn = segment_pictures(analysis, facts, layout)
    steps = len(parts.steps)
    note = f"The first {MOST_STEPS} of {steps:,} steps." if steps > MOST_STEPS else ""
    hidden = len(parts.segments) - MOST_SEGMENTS
    return PartitionView(
        summary=_summary(analysis, facts),
        strip=strip(facts),
        strip_note=note,
        segments=tuple(
            _segment(segment, words, drawn.get(segment.index)) for segment in parts.segments[:MOST_SEGMENTS]
        ),
        more_segments=f"{amount(hidden, 'more engine')}: see the JSON report" if hidden > 0 else "",
        ranked=_ranked(facts.ranked),
        left=_left(facts),
        boundaries=folding_table(
            ("tensor", "from", "to", "shape", "min", "usual", "max"),
            [words.crossing(b) for b in heaviest([b for b in parts.boundaries if _is_inner(b)])],
        ),
        types=folding_table(
            ("tensor", "role", "in the program", "in engines", "why", "line"),
            [
                (
                    one_line(entry.node),
                    entry.role.value,
                    _dtype(entry.program_dtype),
                    "none" if entry.engine_dtype is None else _dtype(entry.engine_dtype),
                    one_line(entry.why, 400),
                    one_line(str(entry.frame)) if entry.frame else "",
                )
                for entry in facts.plan.types.entries
            ],
        ),
    )


def _summary(analysis: Analysis, facts: PartitionFacts) -> str:
    parts = facts.partitioned
    text = f"For {engines_line(analysis)}"
    inner = summed(b.bytes for b in parts.boundaries if _is_inner(b))
    if len(parts.steps) > 1:
        text += (
            f"; {bytes_text(inner.opt) if inner.opt is not None else 'an unknown amount'} cross between engines and "
        )
        text += "PyTorch at usual sizes, inputs and outputs of the program not counted"
    return text + ". The graph is the lowered one: an op without a converter is taken apart where it can be."


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
        self.names = analysis.program.names

    def shape(self, name: str) -> str:
        return self._shapes.of(name, self._nodes[name])[0] if name in self._nodes else ""

    def tensor(self, way: str, name: str) -> tuple[str, ...]:
        engine = self._engine.get(name, ())
        count = self._bytes.get(name, Bytes(None, None, None))
        return way, one_line(name), self.shape(name), _dtype(engine[0]) if engine else "", *_ends(count)

    def crossing(self, boundary: Boundary) -> tuple[str, ...]:
        source = "PyTorch" if boundary.producer is None else f"engine {boundary.producer}"
        readers = [f"engine {index}" for index in boundary.consumers]
        readers += ["PyTorch"] * boundary.read_by_torch + ["output"] * boundary.program_output
        return (
            one_line(boundary.tensor),
            source,
            ", ".join(readers),
            self.shape(boundary.tensor),
            *_ends(boundary.bytes),
        )


def _ends(count: Bytes) -> tuple[str, str, str]:
    low = "unknown" if count.min is None else bytes_text(count.min)
    usual = "unknown" if count.opt is None else bytes_text(count.opt)
    return low, usual, bytes_text(count.max)


def _segment(segment: Segment, words: _Words, picture: Picture | None) -> SegmentView:
    views = len(segment.ops) - segment.work_ops
    text = f"{amount(len(segment.ops), 'op')}" + (f" ({views:,} of them views)" if views else "")
    text += f", {amount(len(segment.constants), 'weight')}, {amount(len(segment.inputs), 'input')}, "
    text += f"{amount(len(segment.outputs), 'output')}"
    rows = [words.tensor("in", name) for name in segment.inputs]
    rows += [
        (
            "in",
            one_line(size.node),
            "a size" if size.expr is None else to_text(size.expr, words.names),
            "int64",
            "",
            "",
            "",
        )
        for size in segment.entering_sizes
    ]
    rows += [words.tensor("out", name) for name in segment.outputs]
    heads = ("", "tensor", "shape", "in the engine", "min", "usual", "max")
    return SegmentView(
        title=f"Engine {segment.index}",
        summary=text,
        crossing=folding_table(heads, rows) or TableView(heads, ()),
        sizes=folding_table(
            ("size that enters", "because"),
            [(one_line(size.node), one_line(size.why, 400)) for size in segment.entering_sizes],
        ),
        picture=picture,
    )


def _ranked(ranked: Sequence[FallbackGroup]) -> TableView | None:
    rows = [
        (
            one_line(group.op) + (f" and {amount(group.other_ops, 'other op')}" if group.other_ops else ""),
            f"{len(group.left):,}",
            f"{group.cost.segments_before:,} → {group.cost.segments_after:,}",
            f"{group.cost.ops_before:,} → {group.cost.ops_after:,}",
        )
        for group in ranked
        if group.cost is not None
    ]
    return folding_table(("if engines could hold", "calls", "engines", "ops in engines"), rows)


def _left(facts: PartitionFacts) -> TableView | None:
    """Every op that PyTorch runs, by reason and op: those that cost engines first, then the most frequent."""
    grouped: dict[tuple[Cause, str, str], list[Fallback]] = {}
    for fallback in facts.partitioned.fallback:
        grouped.setdefault((fallback.cause, fallback.limit.code, fallback.op), []).append(fallback)
    costs = {left.node: group.engines_saved for group in facts.groups for left in group.left}
    rows = []
    for (cause, code, op), found in grouped.items():
        cost = max(costs.get(fallback.node, 0) for fallback in found)
        reason = _CAUSES.get(cause, "") or one_line(found[0].limit.why, 400)
        rows.append((cost, len(found), (one_line(op), f"{len(found):,}", reason, code, *_where(facts, found))))
    rows.sort(key=lambda row: (-row[0], -row[1]))
    return folding_table(
        ("op", "calls", "stays in PyTorch because", "reason", "module", "line"), [row[2] for row in rows]
    )


def _where(facts: PartitionFacts, found: Sequence[Fallback]) -> tuple[str, str]:
    origins = [facts.plan.lowered.origins.get(fallback.node) for fallback in found]
    modules = dict.fromkeys(origin.module_path for origin in origins if origin is not None and origin.module_path)
    lines = dict.fromkeys(str(o.stack.best) for o in origins if o is not None and o.stack.best is not None)
    return _few(list(modules)), _few(list(lines))


def _few(texts: Sequence[str]) -> str:
    shown = ", ".join(one_line(text) for text in texts[:_MOST_LINES])
    return f"{shown} and {len(texts) - _MOST_LINES:,} more" if len(texts) > _MOST_LINES else shown


def _dtype(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")
