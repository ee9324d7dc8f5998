"""The ops that the user keeps in PyTorch, by op name or module path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch.fx import Graph, Node

from trtdiag.frontend.node_origins import origin_of
from trtdiag.graph.limit import Limit
from trtdiag.graph.user_entries import Entries
from trtdiag.partition.plan import Op


def kept_ops(graph: Graph, ops: Sequence[Op], entries: Sequence[str]) -> tuple[Mapping[int, Limit], tuple[str, ...]]:
    """Return the ops that an entry names, by index, and the entries that name nothing."""
    if not entries:
        return {}, ()
    nodes: Mapping[str, Node] = {node.name: node for node in graph.nodes}
    known = Entries(entries)
    kept: dict[int, Limit] = {}
    for index, op in enumerate(ops):
        entry = known.naming(op.target, origin_of(nodes[op.name]).module_path)
        if entry is not None:
            kept[index] = Limit("kept-in-torch", f"keep_in_torch names {entry}", f"take {entry} out of keep_in_torch")
    return kept, known.unused
