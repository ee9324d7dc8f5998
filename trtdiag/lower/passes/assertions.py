"""Takes assertions out: the guards of the program and the ranges say the same, and were read before lowering."""

from __future__ import annotations

from trtdiag.graph.walk import NodeKind, classify
from trtdiag.lower.draft import Draft


def take_assertions_out(draft: Draft) -> int:
    """Remove nodes that only check; what was computed for them alone goes with the dead code."""
    found = [node for node in draft.graph.nodes if classify(node) is NodeKind.ASSERT and not node.users]
    for node in found:
        draft.graph.erase_node(node)
    return len(found)
