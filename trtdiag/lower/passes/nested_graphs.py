"""Brings nested graphs that always run, and run once, into the graph itself: blocks of no_grad and of autocast."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from trtdiag.errors import UnsupportedOpError
from trtdiag.graph.node_kinds import NodeKind, attribute_of, classify
from trtdiag.graph.operators import HigherOrderOperator
from trtdiag.lower.draft import Draft
from trtdiag.lower.explicit_casts import ExplicitCasts
from trtdiag.lower.graph_copy import free_attribute
from trtdiag.lower.nested_calls import is_on, opened
from trtdiag.lower.template import UntraceableError, replaced


def inline_nested_graphs(draft: Draft) -> int:
    """Replace each call of such a graph by the ops in it; other nested graphs stay, with a limit.

    The casts of an autocast block, which an exported graph leaves out, become ops.

    Raises:
        UnsupportedOpError: Autocast around some op outside of all nested graphs cannot be written as ops.
    """
    try:
        ExplicitCasts(draft).write(draft.graph_module, {})
    except UntraceableError as why:
        raise UnsupportedOpError(
            "the program cannot be lowered",
            because=str(why),
            fix="move this op out of the autocast block, or switch autocast off around it",
            reference="autocast-around-op",
        ) from why
    work = _Inliner(draft)
    for node in list(draft.graph.nodes):
        if isinstance(node.target, HigherOrderOperator):
            work.visit(node)
    used = {str(node.target) for node in draft.graph.nodes if node.op == "get_attr"}
    for name, child in list(draft.graph_module.named_children()):
        if isinstance(child, GraphModule) and name not in used:
            delattr(draft.graph_module, name)  # of the copy: the program keeps its own
    return work.count


class _Inliner:
    def __init__(self, draft: Draft) -> None:
        self.count = 0
        self._draft = draft
        self._graph = draft.graph

    def visit(self, node: Node) -> None:
        """Inline one call and those in its graph, or give it a limit."""
        try:
            nested, given = _runs_once(node)
        except UntraceableError as why:
            self._draft.limit(node, str(why))
            return
        self.count += 1
        with self._graph.inserting_before(node):
            copies, made = self._copied(nested, given)
        for user in list(node.users):  # a call of a nested graph returns a tuple, and only its elements are used
            user.replace_all_uses_with(made[user.args[1]])  # type: ignore[index]  # a plain number
            self._graph.erase_node(user)
        graphs = [source for source in node.all_input_nodes if classify(source) is NodeKind.SUBGRAPH]
        self._graph.erase_node(node)
        for source in graphs:
            if not source.users:
                self._graph.erase_node(source)
        taken = {each.name for each in self._graph.nodes}
        for each, name in copies.items():
            if name not in taken:  # the call of the nested graph often has the name of the op in it
                taken.add(name)
                each.name = name
        for each in copies:
            if isinstance(each.target, HigherOrderOperator):
                self.visit(each)

    def _copied(self, nested: GraphModule, given: tuple[Any, ...]) -> tuple[dict[Node, str], tuple[Any, ...]]:
        """Copy the ops of a nested graph to the insertion point: these with their names, and what the graph returns."""
        now: dict[Node, Any] = dict(zip(nested.graph.find_nodes(op="placeholder"), given, strict=False))
        copies: dict[Node, str] = {}
        for node in nested.graph.nodes:
            if node.op == "get_attr":
                now[node] = self._attribute(nested, node)
            elif node.op == "call_function":
                now[node] = made = self._graph.node_copy(node, now.__getitem__)
                copies[made] = node.name
        output = next(iter(reversed(nested.graph.nodes)))
        returned: Any = replaced(output.args[0], now.__getitem__, Node)
        return copies, tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)

    def _attribute(self, nested: GraphModule, node: Node) -> Node:
        """A node for an attribute of a nested graph, which becomes one of the graph itself."""
        root = self._draft.graph_module
        name = free_attribute(root, "nested")
        setattr(root, name, attribute_of(nested, node))
        made = self._graph.get_attr(name)
        made.meta = dict(node.meta)
        return made


def _runs_once(node: Node) -> tuple[GraphModule, tuple[Any, ...]]:
    """The nested graph of a call and its arguments.

    Raises:
        UntraceableError: It does not run once and always, or autocast around it is on still.
    """
    nested, given, modes = opened(node, {})
    if is_on(modes):
        raise UntraceableError("its autocast cannot be written as casts")
    return nested, given
