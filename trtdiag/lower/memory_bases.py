"""Whose memory each node of a graph shows that changes some in place, and reshapes that show it at some sizes alone."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from trtdiag.graph.aliases import alias_base, roots_of
from trtdiag.graph.operators import ATEN, writes
from trtdiag.graph.values import is_row_major
from trtdiag.lower.draft import insert_call


def bases_of(graph: Graph) -> dict[Node, Node | None]:
    """The node whose memory each node shows, one step back; each result of an op of several has memory of its own."""
    bases: dict[Node, Node | None] = {}
    first: dict[tuple[Node, Any], Node] = {}
    for node in graph.nodes:
        source = node.args[0] if node.target is operator.getitem else None
        base = alias_base(node, perhaps=True)
        if isinstance(source, Node) and base is source:
            once = first.setdefault((source, node.args[1]), node)
            if once is not node:
                node.replace_all_uses_with(once)  # both are one object
            written = writes(source)
            if written:
                base = written[node.args[1]] if node.args[1] in range(len(written)) else source
            elif bases.get(source) is None:
                base = None
        bases[node] = base
    return bases


def cut_copies(graph: Graph, bases: dict[Node, Node | None]) -> dict[Node, Node]:
    """Take reshapes that are views at some sizes alone for copies, where no read tells which of both they are.

    Returns:
        Where one does, by the tensor whose memory it is: something is changed on one side of the reshape, and read on
        the other later.
    """
    perhaps = [node for node in bases if alias_base(node) is not alias_base(node, perhaps=True)]
    if not perhaps:
        return {}
    roots, sides = roots_of(bases), roots_of({**bases, **dict.fromkeys(perhaps)})
    last_reads: dict[Node, dict[Node, int]] = {roots[node]: {} for node in perhaps}
    made: dict[Node, int] = {}
    for place, node in enumerate(graph.nodes):
        made[node] = place
        for given in node.all_input_nodes:
            if roots[given] in last_reads:
                last_reads[roots[given]][sides[given]] = place
    unsure: dict[Node, Node] = {}
    for place, node in enumerate(graph.nodes):
        for given in writes(node):
            root, side = roots[given], sides[given]
            kept = root.op != "call_function" and side is not root  # it lives on behind the program
            reads = last_reads.get(root, {}).items()
            # A reshape that is made after the change shows it either way.
            if kept or any(made[one] < place < read for one, read in reads if one is not side):
                unsure[root] = next(each for each in perhaps if roots[each] is root)
    for node in perhaps:
        if roots[node] not in unsure:
            bases[node] = None
    return unsure


def keep_order(graph: Graph, root: Node) -> None:
    """Lay out what a call gives as the program did, for a reshape that is a view or a copy by that alone.

    An engine gives its results row-major, of which each reshape is a view.
    """
    value = root.meta.get("val")
    if root.op != "call_function" or not isinstance(value, torch.Tensor) or is_row_major(value):
        return
    sizes = [stride if isinstance(stride, int) else stride.node.hint for stride in value.stride()]
    if None in sizes:
        return
    order = sorted(range(value.dim()), key=lambda dim: -sizes[dim])
    back = [order.index(dim) for dim in range(value.dim())]
    users = list(root.users)
    with value.fake_mode, graph.inserting_after(root):  # type: ignore[attr-defined]  # all values of a graph are fake
        turned = value.permute(order)
        laid = turned.clone(memory_format=torch.contiguous_format)
        first = insert_call(graph, ATEN.permute.default, (root, order), turned, root, "order")
    with graph.inserting_after(first):
        kwargs = {"memory_format": torch.contiguous_format}
        second = insert_call(graph, ATEN.clone.default, (first,), laid, root, "laid", kwargs)
    with graph.inserting_after(second):
        third = insert_call(graph, ATEN.permute.default, (second, back), value, root, "back")
    for user in users:
        user.replace_input_with(root, third)
