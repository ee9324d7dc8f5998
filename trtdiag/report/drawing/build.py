"""From an analysis to the drawn graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from trtdiag.analysis.result import Analysis
from trtdiag.report.drawing.engine_layers import engine_layers
from trtdiag.report.drawing.finding_marks import marks
from trtdiag.report.drawing.graph_model import hierarchy, hierarchy_by_step
from trtdiag.report.drawing.layout import lay_out
from trtdiag.report.drawing.levels import levels
from trtdiag.report.drawing.measures import measures
from trtdiag.report.drawing.nodes import DrawnNode, Role, drawn_nodes
from trtdiag.report.drawing.payload import DrawnView, payload
from trtdiag.report.drawing.sides import Side, Sides, sides
from trtdiag.report.drawing.svg import picture
from trtdiag.report.page import Part
from trtdiag.symbolic.text import in_words
from trtdiag.wording import amount

_UNDRAWN = {
    Role.SHAPE: ("shape computation",),
    Role.CHECK: ("assert, no-op or element of several results", "asserts, no-ops and elements of several results"),
    Role.WEIGHT: ("weight",),
}


def _named(where: Sides, analysis: Analysis) -> Sides:
    """The sides with sizes by the user's names in their reasons; thousands of nodes share a few."""
    told = {words: in_words(words, analysis.program.words) for words in set(where.words)}
    return replace(where, words=tuple(told[words] for words in where.words))


def graph_view(analysis: Analysis, layout: str = "auto") -> Part | None:
    """The graph of the program, ``None`` where there is none.  Cost: linear in nodes and edges, times module depth."""
    if analysis.checked is None:
        return None
    nodes = drawn_nodes(analysis, analysis.checked.graph_module)
    where = None if analysis.partition is None else _named(sides(analysis.partition, nodes), analysis)
    roots = [("module", hierarchy(nodes))]
    if where is not None:
        roots.insert(0, ("partition", hierarchy_by_step(nodes, where)))
    drawn = [levels(root, nodes) for _, root in roots]
    laid_out = lay_out([level.graph for view in drawn for level in view], layout)
    layouts = iter(laid_out.layouts)
    views = [
        DrawnView(name, view, [next(layouts) for _ in view], marks(analysis.findings, nodes, root))
        for (name, root), view in zip(roots, drawn, strict=True)
    ]
    # One engine in one box says nothing on paper: then its modules are the overview.
    overview = views[0] if sum(box.group is not None for box in views[0].levels[0].boxes) > 1 else views[-1]
    return {
        "summary": _summary(nodes, where, len(drawn[-1]) - 1),
        "picture": picture(overview.levels[0], overview.layouts[0], nodes, overview.marks, where),
        "payload": payload(
            nodes,
            views,
            where,
            engine_layers(analysis.compilation, nodes),
            analysis.findings,
            measures(analysis, nodes, where),
        ),
        "layout_note": laid_out.note,
    }


def _summary(nodes: Sequence[DrawnNode], where: Sides | None, groups: int) -> str:
    counts = Counter(node.role for node in nodes)
    text = f"As exported, {amount(counts[Role.OP], 'op')}"
    if where is not None:
        ran = Counter(where.side)
        engines = sum(where.in_engine)
        told = [f"{ran[Side.ENGINE]:,} in {amount(engines, 'engine')}"] if engines else []
        told += [f"{ran[Side.TORCH]:,} in PyTorch"] if ran[Side.TORCH] else []
        told += [f"{ran[Side.GONE]:,} gone in lowering"] if ran[Side.GONE] else []
        text += f": {', '.join(told)}" if told else ""
    if groups:
        text += f"; {amount(groups, 'module group')}"
    parts = [amount(counts[role], *words) for role, words in _UNDRAWN.items() if counts[role]]
    return f"{text}." + (f" Not drawn, listed with their modules: {', '.join(parts)}." if parts else "")
