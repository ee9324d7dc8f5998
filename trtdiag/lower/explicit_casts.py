"""Writes the casts of autocast into graphs as ops, after which autocast around them changes nothing."""

from __future__ import annotations

import torch
from torch.fx import Graph, GraphModule, Node

from trtdiag.graph.node_kinds import NodeKind, classify, subgraph_of, walk
from trtdiag.graph.operators import CAST, HigherOrderOperator, operator_of, target_name
from trtdiag.lower.autocast import Autocast
from trtdiag.lower.draft import Draft, insert_call, insert_steps
from trtdiag.lower.graph_copy import copied, free_attribute
from trtdiag.lower.nested_calls import ENTERS, LEAVES, Modes, is_on, modes_of_nodes, opened
from trtdiag.lower.template import Ref, Template, UntraceableError, filled, with_refs

_AUTOCAST_BLOCK = "wrap_with_autocast"


class ExplicitCasts:
    """Finds and writes the casts of a draft's graph and of the graphs nested in it."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._autocast = Autocast(draft.mode)

    def write(self, owner: GraphModule, modes: Modes) -> None:
        """Write the casts of one graph in place; nested graphs are replaced by changed copies.

        Args:
            owner: The module whose graph it is.
            modes: The state of autocast around the graph.

        Raises:
            UntraceableError: What autocast does to some op under ``modes`` cannot be written as ops.
        """
        for node, at_node in list(modes_of_nodes(owner.graph, modes)):
            if isinstance(node.target, HigherOrderOperator):
                self._nested(owner, node, at_node)
            elif is_on(at_node) and operator_of(node) is not None and classify(node) is NodeKind.OP:
                self._op(owner.graph, node, at_node)
        switches = [node for node in owner.graph.nodes if node.op == "call_function" and _switches(node)]
        for node in reversed(switches):
            owner.graph.erase_node(node)

    def _nested(self, owner: GraphModule, node: Node, modes: Modes) -> None:
        inside = modes
        block = target_name(node.target) == _AUTOCAST_BLOCK
        if block:
            _, _, inside = opened(node, modes)
        try:
            changed = {source: self._changed(owner, source, inside) for source in node.all_input_nodes}
        except UntraceableError as why:
            if is_on(modes) or not block:
                raise
            self._draft.limit(node, str(why))  # the block stays, and with it its autocast
            return
        for source, fresh in changed.items():
            if fresh is not None:
                name = free_attribute(owner, "cast")
                setattr(owner, name, fresh)
                with owner.graph.inserting_before(node):
                    made = owner.graph.get_attr(name)
                node.replace_input_with(source, made)
        if block:
            node.args = (*node.args[:2], False, *node.args[3:])

    def _changed(self, owner: GraphModule, source: Node, modes: Modes) -> GraphModule | None:
        nested = subgraph_of(owner, source)
        if nested is None or not (is_on(modes) or _has_autocast(nested)):
            return None
        fresh = copied(nested)
        self.write(fresh, modes)
        fresh.recompile()
        return fresh

    def _op(self, graph: Graph, node: Node, modes: Modes) -> None:
        op = operator_of(node)
        assert op is not None
        inputs, (args, kwargs) = with_refs((node.args, node.kwargs), Node)
        vals = [source.meta.get("val") for source in inputs]
        try:
            casts = self._autocast.casts(op, args, kwargs, vals, node.meta.get("val"), modes)
        except UntraceableError:
            self._splice(graph, node, self._autocast.parts(op, args, kwargs, vals, modes))
            return
        with graph.inserting_before(node):
            for index, dtype in casts.items():
                source = inputs[index]
                with self._draft.mode:
                    val = torch.empty_like(source.meta["val"], dtype=dtype)
                inputs[index] = insert_call(graph, CAST, (source,), val, node, "autocast", {"dtype": dtype})
        node.args, node.kwargs = filled((args, kwargs), inputs)

    def _splice(self, graph: Graph, node: Node, parts: Template) -> None:
        """Replace an op that autocast changes inside by the ops that it becomes."""
        if not isinstance(parts.result, Ref):
            raise UntraceableError(f"autocast changes more of {node.target} than the dtypes of its inputs")
        values = insert_steps(graph, node, parts)
        node.replace_all_uses_with(values[parts.result.index])
        graph.erase_node(node)


def _switches(node: Node) -> bool:
    return target_name(node.target) in (ENTERS, LEAVES)


def _has_autocast(nested: GraphModule) -> bool:
    return any(target_name(located.node.target) in (ENTERS, LEAVES, _AUTOCAST_BLOCK) for located in walk(nested))
