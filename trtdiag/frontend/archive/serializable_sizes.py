"""Writes what is computed of sizes as torch.export can save and read it again.

Of Python's floor, ceil and round it has no op to save.  Where all dims of a symbol are declared as ``n + 2``, its
reader knows no example of the symbol, and stops at a size of which ranges alone do not say that it is none below 0:
``n + 2 - (n + 2) // 2``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from trtdiag.frontend.rebuilt_program import copied_graph, rebuilt_program
from trtdiag.frontend.torch_private import shape_env_of
from trtdiag.symbolic import ExpressionError, expr_from_sympy
from trtdiag.symbolic.build import affine


def with_saved_sizes(exported: ExportedProgram) -> ExportedProgram:
    """The program with roundings as truncations, the same for every float, and with the symbols that its reader needs.

    Itself where it has neither.  ``round`` to digits after the point is no whole number and stays.
    """
    found, roots = [node for node in exported.graph.nodes if _is_rounding(node)], _unread_roots(exported)
    if not found and not roots:
        return exported
    graph, copies = copied_graph(exported.graph)
    for node in found:
        with graph.inserting_before(copies[node]):
            _write(graph, copies[node])
    first = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(first):
        for placeholder, dim, scale, offset in roots:
            size = _call(graph, copies[placeholder], torch.ops.aten.sym_size.int, copies[placeholder], dim)
            _call(graph, size, operator.floordiv, _call(graph, size, operator.sub, size, offset), scale)
    return rebuilt_program(exported, exported.graph_module, graph, same_modules=True)


def _unread_roots(exported: ExportedProgram) -> list[tuple[Node, int, int, int]]:
    """Of each symbol that torch's reader has to know an example of: a dim that says it, with its scale and offset."""
    env = shape_env_of(exported.graph_module)
    sizes = [(node, dim, size.node.expr) for node in exported.graph.nodes for dim, size in _sizes_of(node)]
    given = [each for each in sizes if each[0].op == "placeholder"]
    plain = {str(expr) for _node, _dim, expr in given if expr.is_Symbol}
    if env is None or all(str(symbol) in plain for _node, _dim, expr in given for symbol in expr.free_symbols):
        return []
    distinct = {expr for _node, _dim, expr in sizes}
    open_ = {str(s) for expr in distinct if env.bound_sympy(expr).lower < 0 for s in expr.free_symbols} - plain
    found: dict[str, tuple[Node, int, int, int]] = {}
    for node, dim, expr in given if open_ else []:
        try:
            line = affine(expr_from_sympy(expr))
        except ExpressionError:
            continue
        if line is not None and line[0] in open_:
            found.setdefault(line[0], (node, dim, *line[1:]))
    return list(found.values())


def _sizes_of(node: Node) -> Iterator[tuple[int, torch.SymInt]]:
    value = node.meta.get("val")
    for dim, size in enumerate(value.shape) if isinstance(value, torch.Tensor) else ():
        if isinstance(size, torch.SymInt):
            yield dim, size


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
