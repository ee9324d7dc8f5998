"""Writes roundings of sizes as what torch.export can save: of Python's floor, ceil and round it has none."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from trtdiag.frontend.rebuilt_program import copied_graph, rebuilt_program


def with_saved_roundings(exported: ExportedProgram) -> ExportedProgram:
    """The program with these as truncations, the same for every float; itself where it has none of them.

    ``round`` to digits after the point is no whole number and stays.
    """
    found = [node for node in exported.graph.nodes if _is_rounding(node)]
    if not found:
        return exported
    graph, copies = copied_graph(exported.graph)
    for node in found:
        with graph.inserting_before(copies[node]):
            _write(graph, copies[node])
    return rebuilt_program(exported, exported.graph_module, graph, same_modules=True)


def _is_rounding(node: Node) -> bool:
    if node.op != "call_function" or node.target not in (math.floor, math.ceil, round):
        return False
    given, *digits = node.args
    if digits not in ([], [None]):
        return False
    return isinstance(given, Node) and isinstance(given.meta.get("val"), torch.SymFloat)


def _write(graph: Graph, node: Node) -> None:
    """Make ``node`` a sum of the number without its fraction and 1, 0 or -1; name and value stay."""
    number, kind = node.args[0], node.target
    whole = _call(graph, node, math.trunc, number)
    if kind is math.ceil:
        node.target = operator.add
        node.args = (whole, _one_where(graph, node, operator.lt, whole, number))
        return
    above = _one_where(graph, node, operator.gt, whole, number)
    if kind is math.floor:
        node.target, node.args = operator.sub, (whole, above)
        return
    # Half of what is left goes to the even number; the difference of neighbours is exact.
    below = _call(graph, node, operator.sub, whole, above)
    rest = _call(graph, node, operator.sub, number, below)
    tie = _call(graph, node, operator.eq, rest, 0.5)
    odd = _call(graph, node, operator.mod, below, 2)
    up = _one_where(graph, node, operator.gt, rest, 0.5)
    node.target, node.args = operator.add, (below, _call(graph, node, torch.sym_ite, tie, odd, up))


def _one_where(graph: Graph, like: Node, relation: Any, left: Any, right: Any) -> Node:
    return _call(graph, like, torch.sym_ite, _call(graph, like, relation, left, right), 1, 0)


def _call(graph: Graph, like: Node, target: Any, *args: Any) -> Node:
    node = graph.call_function(target, args)
    node.meta = {key: value for key, value in like.meta.items() if key != "val"}
    node.meta["val"] = target(*(arg.meta["val"] if isinstance(arg, Node) else arg for arg in args))
    return node
