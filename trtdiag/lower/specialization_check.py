"""A second look, away from the example: sizes that some pass replaced by the example's number.

At the example's sizes such a value is right, so ``recheck`` cannot see it.  Only nodes whose recorded value mentions
fewer symbols than their inputs can be wrong in this way: a handful in an honest program (reductions, reshapes).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from trtdiag.lower.autocast import under_autocast
from trtdiag.lower.concrete_values import Point, UnplaceableError, same, spell
from trtdiag.lower.facts import Defect
from trtdiag.lower.metadata_recheck import Suspect, needs_value, rerun
from trtdiag.symbolic import free_symbols, from_sympy


def frozen_sizes(graph_module: GraphModule, other: Mapping[str, int], known: Collection[Node]) -> list[Suspect]:
    """Nodes whose recorded sizes are wrong at the point ``other``, in graph order; nodes in ``known`` are left out.

    Args:
        graph_module: The graph.
        other: A size for each symbol, other than the example's and allowed by every guard.
        known: Nodes that are suspect already, and need not be looked at again.
    """
    point = Point(other)
    symbols: dict[Node, frozenset[str]] = {}
    placed: dict[Node, Any] = {}
    ran: dict[Any, Any] = {}
    suspects: list[Suspect] = []
    wrong = set(known)
    with torch.no_grad():
        for node in under_autocast(graph_module.graph, {}):
            if not needs_value(node, graph_module) or "val" not in node.meta:
                continue
            symbols[node] = _mentions(node.meta["val"])
            given = frozenset[str]().union(*(symbols.get(source, frozenset()) for source in node.all_input_nodes))
            if node in wrong or not symbols[node] < given or wrong.intersection(node.all_input_nodes):
                continue
            try:
                for source in node.all_input_nodes:
                    if source not in placed and "val" in source.meta:
                        placed[source] = point.place(source.meta["val"])
                recorded = point.place(node.meta["val"])
            except UnplaceableError:
                continue  # a size from data has no other value to look at
            again, why_not = rerun(node, point, placed, ran)
            if not why_not and not same(again, recorded):
                reason = f"its op gives {spell(again)} for other sizes of the inputs"
                suspects.append(Suspect(node, Defect.STALE, spell(recorded), True, reason))
                wrong.add(node)
    return suspects


def _mentions(value: Any) -> frozenset[str]:
    found: set[str] = set()
    for leaf in pytree.tree_leaves(value):
        sizes = [*leaf.shape] if isinstance(leaf, torch.Tensor) else [leaf]
        for size in sizes:
            if isinstance(size, torch.SymInt):
                found |= free_symbols(from_sympy(size.node.expr))
    return frozenset(found)
