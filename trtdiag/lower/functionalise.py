"""In-place ops made functional on the graph itself: what is read later is told of the new value, views included."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from trtdiag.graph.aliases import alias_base, alias_roots
from trtdiag.graph.operators import CAST, operator_of, schema_name, writes
from trtdiag.lower.decomposable import draws
from trtdiag.lower.draft import insert_call
from trtdiag.lower.tracing_conditions import asking
from trtdiag.lower.view_inverses import has_inverse, scattered
from trtdiag.lower.views_in_place import use_views


def functionalised_graph(graph: Graph) -> tuple[dict[Node, Node], dict[Node, str]]:
    """Replace in-place ops in ``graph``.

    Returns:
        The last value of each placeholder that was changed, and the in-place ops that had to stay, with the reason.
        Where one stays, so do all that change the same memory.
    """
    if any(writes(node) for node in graph.nodes):
        use_views(graph)
    changing = [node for node in graph.nodes if writes(node)]
    if not changing:
        return {}, {}
    roots = alias_roots(graph)
    stay: dict[Node, str] = {}
    for node in changing:
        why = _obstacle(node, roots)
        if why:
            stay[node] = why
    locked = {roots[given] for node in stay for given in writes(node)}
    for node in changing:
        if node not in stay and any(roots[given] in locked for given in writes(node)):
            stay[node] = "another op that changes the same memory stays in place"
    work = _Functionaliser(graph, roots)
    for node in list(graph.nodes):
        work.visit(node, replace=node in changing and node not in stay)
    changed = {root: work.value(root) for root in work.generation if root.op == "placeholder"}
    values = set(changed.values())
    # What was replaced would count as a change for whoever looks at the graph next, and no dead-code pass takes it.
    for node in reversed(changing):
        if node not in stay and node not in values and not node.users:
            graph.erase_node(node)
    return changed, stay


def functional_variant(op: OpOverload) -> OpOverload | None:
    """``aten.add.Tensor`` for ``aten.add_.Tensor``, ``None`` where there is none."""
    namespace, _, name = schema_name(op).partition("::")
    packet = getattr(getattr(torch.ops, namespace), name[:-1], None) if name.endswith("_") else None
    variant = getattr(packet, op._overloadname, None) if packet is not None else None
    if not isinstance(variant, OpOverload) or variant._schema.is_mutable:
        return None
    # The tensor itself may be called ``self`` in one and ``input`` in the other.
    names = [[argument.name for argument in each._schema.arguments][1:] for each in (op, variant)]
    return variant if names[0] == names[1] else None


def _obstacle(node: Node, roots: dict[Node, Node]) -> str:
    op = operator_of(node)
    if op is not None and torch.Tag.inplace_view in op.tags:
        return "it changes the form of an input or constant in place"
    if op is None or functional_variant(op) is None:
        return "it changes a tensor in place and has no functional variant"
    if torch.Tag.nondeterministic_seeded in op.tags and draws(node, op):
        return "it draws random numbers into a tensor"
    given = writes(node)
    if len(given) != 1 or given[0] is not node.args[0]:
        return "it changes several tensors in place"
    if given[0].op == "get_attr" or roots[given[0]].op == "get_attr":
        return "it changes a constant of the program in place"
    step: Node = given[0]
    while step is not roots[step]:
        base = alias_base(step)
        if base is None or not (writes(step) or has_inverse(step)):
            return f"it changes a view in place that {step.target} made, and that has no inverse here"
        if writes(step) and base is not step.args[0]:
            return "it changes the result of an in-place op of several tensors"
        step = base
    return ""


class _Functionaliser:
    def __init__(self, graph: Graph, roots: dict[Node, Node]) -> None:
        self.generation: dict[Node, int] = {}
        self._graph = graph
        self._roots = roots
        self._bases = {node: alias_base(node) for node in graph.nodes}
        self._made: dict[Node, tuple[int, Node]] = {}

    def visit(self, node: Node, *, replace: bool) -> None:
        self._graph.inserting_before(node)
        if self.generation:
            fresh = {given: self.value(given) for given in node.all_input_nodes}
            node.args, node.kwargs = torch.fx.map_arg((node.args, node.kwargs), fresh.__getitem__)
        root = self._roots.get(node, node)
        self._made[node] = (self.generation.get(root, 0), node)
        if replace:
            self._replace(node)

    def value(self, node: Node) -> Node:
        """The node that holds now what ``node`` stands for; a view of changed memory is made again."""
        root = self._roots.get(node, node)
        now = self.generation.get(root, 0)
        made, held = self._made.get(node, (0, node))
        if made == now:
            return held
        again = self.value(self._base(node))
        if node.target is not torch.ops.aten.alias.default and not writes(node):
            args, val = (again, *node.args[1:]), node.meta.get("val")
            again = insert_call(self._graph, node.target, args, val, node, "again", node.kwargs)
        self._made[node] = (now, again)
        return again

    def _replace(self, node: Node) -> None:
        op = operator_of(node)
        variant = None if op is None else functional_variant(op)
        written = self._base(node)
        assert variant is not None
        val = node.meta.get("val", written.meta.get("val"))
        dtype = val.dtype if isinstance(val, torch.Tensor) else None
        new = insert_call(self._graph, variant, node.args, val, node, "functional", node.kwargs)
        others = [a.meta.get("val") for a in new.all_input_nodes[1:]] + [a for a in new.args if isinstance(a, float)]
        if dtype is not None and any(_promotes(other, dtype) for other in others):
            new.meta["val"] = _result(variant, new, val)
            if new.meta["val"].dtype != dtype:
                new = insert_call(self._graph, CAST, (new,), val, node, "cast", {"dtype": dtype})
        self._write(written, new)
        root = self._roots[node]
        self._made[node] = (self.generation[root], new)

    def _base(self, node: Node) -> Node:
        """The node as the program wrote it that a view shows, or that an in-place op changes."""
        base = self._bases[node]
        assert base is not None
        return base

    def _write(self, node: Node, value: Node) -> None:
        root = self._roots[node]
        now = self.generation.get(root, 0) + 1
        chain: list[tuple[Node, Node]] = []
        while node is not root:
            base = self._base(node)
            chain.append((node, value))
            if not writes(node):
                value = scattered(self._graph, node, self.value(base), value, base.meta["val"])
            node = base
        chain.append((root, value))
        self.generation[root] = now
        for each, held in chain:
            self._made[each] = (now, held)


def _result(variant: OpOverload, node: Node, like: Any) -> Any:
    """The value of a call, as the fake mode of ``like`` computes it."""
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
    with torch.no_grad(), like.fake_mode, asking(like.fake_mode.shape_env):
        return variant(*args, **kwargs)


def _promotes(other: Any, dtype: torch.dtype) -> bool:
    if isinstance(other, torch.Tensor):
        return other.dtype != dtype
    return isinstance(other, (float, torch.SymFloat)) and not (dtype.is_floating_point or dtype.is_complex)
