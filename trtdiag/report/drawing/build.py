"""From an analysis to the drawn graph."""

from __future__ import annotations

from collections import Counter

from trtdiag.analysis.result import Analysis
from trtdiag.report.drawing.graph_model import hierarchy
from trtdiag.report.drawing.layout import lay_out
from trtdiag.report.drawing.levels import levels
from trtdiag.report.drawing.marks import marks
from trtdiag.report.drawing.nodes import DrawnNode, Role, drawn_nodes
from trtdiag.report.drawing.payload import payload
from trtdiag.report.drawing.svg import picture
from trtdiag.report.text import amount
from trtdiag.report.view import GraphView


def graph_view(analysis: Analysis, layout: str = "auto") -> GraphView | None:
    """The graph of the program, ``None`` where there is none.  Cost: linear in nodes and edges, times module depth."""
    if analysis.checked is None:
        return None
    nodes = drawn_nodes(analysis, analysis.checked.graph_module)
    root = hierarchy(nodes)
    drawn = levels(root, nodes)
    laid_out = lay_out([level.graph for level in drawn], layout)
    found = marks(analysis.findings, nodes, root)
    return GraphView(
        summary=_summary(nodes, len(drawn) - 1),
        picture=picture(drawn[0], laid_out.layouts[0], nodes, found),
        payload=payload(nodes, drawn, laid_out.layouts, found, analysis.findings),
        layout_note=laid_out.note,
    )


def _summary(nodes: tuple[DrawnNode, ...], groups: int) -> str:
    counts = Counter(node.role for node in nodes)
    text = f"{amount(counts[Role.OP], 'op')} in {amount(groups, 'module group')}."
    parts = [
        amount(counts[role], word)
        for role, word in (
            (Role.SHAPE, "shape computation"),
            (Role.CHECK, "assert or no-op"),
            (Role.WEIGHT, "weight"),
        )
        if counts[role]
    ]
    parts = [part.replace("assert or no-ops", "asserts and no-ops") for part in parts]
    return text + (f" Not drawn, listed with their modules: {', '.join(parts)}." if parts else "")
