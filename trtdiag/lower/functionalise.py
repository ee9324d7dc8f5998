"""In-place ops made functional on the graph itself: what is read later is told of the new value, views included."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from trtdiag.graph.aliases import roots_of
from trtdiag.graph.operators import CAST, operator_of, writes
from trtdiag.lower.decomposable import draws
from trtdiag.lower.draft import insert_call
from trtdiag.lower.functional_variants import functional_variant
from trtdiag.lower.memory_bases import bases_of, cut_copies, keep_order
from trtdiag.lower.template import written_size
from trtdiag.lower.tracing_conditions import asking
from trtdiag.lower.view_inverses import (
    element_has_inverse,
    element_scattered,
    has_inverse,
    list_of_views,
    scattered,
)
from trtdiag.lower.views_in_place import use_views


def functionalised_graph(graph: Graph, *, random: bool = False) -> tuple[dict[Node, Node], dict[Node, str]]:
    """Replace in-place ops in ``graph``; with ``random`` those that draw numbers into a tensor, too.

    Returns:
        The last value of each placeholder that was changed, and the in-place ops that had to stay, with the reason.
        Where one stays, so do all that change the same memory.
    """
    if any(writes(node) for node in graph.nodes):
        use_views(graph)
    changing = [node for node in graph.nodes if writes(node)]
    if not changing:
        return {}, {}
    bases = bases_of(graph)
    unsure = cut_copies(graph, bases)
    roots = roots_of(bases)
    stay: dict[Node, str] = {}
    for node in changing:
        why = _obstacle(node, bases, roots, random)
        view = next((unsure[roots[given]] for given in writes(node) if roots[given] in unsure), None)
        if view is not None and not why:
            why = f"whether {view.target} copies what it changes or makes a view of it depends on sizes"
        if why:
            stay[node] = why
    locked = {roots[given] for node in stay for given in writes(node)}
    for node in changing:
        if node not in stay and any(roots[given] in locked for given in writes(node)):
            stay[node] = "another op that changes the same memory stays in place"
    work = _Functionaliser(graph, bases, roots)
    for node in list(graph.nodes):
        work.visit(node, replace=node in changing and node not in stay)
    for root in unsure:
        if root in locked:
            keep_order(graph, root)
    changed = {root: work.value(root) for root in work.generation if root.op == "placeholder"}
    values = set(changed.values())
    # What was replaced would count as a change for whoever looks at the graph next, and no dead-code pass takes it.
    for node in reversed(changing):
        if node not in stay and node not in values and not node.users:
            graph.erase_node(node)
    return changed, stay


def _obstacle(node: Node, bases: Mapping[Node, Node | None], roots: Mapping[Node, Node], random: bool) -> str:
    op = operator_of(node)
    if op is not None and torch.Tag.inplace_view in op.tags:
        return "it changes the form of an input or constant in place"
    variant = None if op is None else functional_variant(op)
    if op is None or variant is None:
        return "it changes a tensor in place and has no functional variant"
    if not random and torch.Tag.nondeterministic_seeded in op.tags and draws(node, op):
        return "it draws random numbers into a tensor"
    given = writes(node)
    if not variant.outputs and (len(given) != 1 or given[0] is not node.args[0]):
        return "it changes several tensors in place"
    if len({roots[each] for each in given}) < max(len(given), len(variant.outputs)):
        return "it writes two results into one tensor"
    sizes = _vals(node) if variant.outputs else [each.meta.get("val") for each in given]
    for each, val in zip(given, sizes, strict=True):
        why = _not_written(each, bases, roots)
        if why:
            return why
        if not _same_sizes(each.meta.get("val"), val) and [one for one, root in roots.items() if root is each] != [
            each,
            *([node] if len(given) == 1 else []),
        ]:
            return "it gives a tensor other sizes, of which there are views"
    return ""


def _not_written(given: Node, bases: Mapping[Node, Node | None], roots: Mapping[Node, Node]) -> str:
    """Why a tensor cannot get another value; empty where it can."""
    if given.op == "get_attr" or roots[given].op == "get_attr":
        return "it changes a constant of the program in place"
    step: Node = given
    while step is not roots[step]:
        base, pieces = bases[step], list_of_views(step)
        if pieces is not None and base is pieces and element_has_inverse(step, pieces):
            base = bases[pieces]
        elif base is None or not (writes(step) or has_inverse(step) or _is_written_one(step, base)):
            return f"it changes a view in place that {_maker(step)} made, and that has no inverse here"
        elif writes(step) and base is not (step.args[0] if step.args else None) and base not in writes(step):
            return "it changes the result of an in-place op of several tensors"
        assert base is not None
        step = base
    return ""


def _is_written_one(step: Node, base: Node) -> bool:
    """Whether a getitem node picks a tensor that an op was given for its results: it is that tensor."""
    source = step.args[0] if step.target is operator.getitem else None
    return isinstance(source, Node) and base in writes(source)


def _maker(view: Node) -> object:
    """The op that made a view, of an element the one that made its list."""
    source = view.args[0] if view.target is operator.getitem else view
    return source.target if isinstance(source, Node) else view.target


def _vals(node: Node) -> list[Any]:
    """The values that a node yields, of an op with several all."""
    val = node.meta.get("val")
    return list(val) if isinstance(val, (list, tuple)) else [val]


def _same_sizes(before: Any, after: Any) -> bool:
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return before is after
    return [written_size(size) for size in before.shape] == [written_size(size) for size in after.shape]


class _Functionaliser:
    def __init__(self, graph: Graph, bases: Mapping[Node, Node | None], roots: Mapping[Node, Node]) -> None:
        self.generation: dict[Node, int] = {}
        self._graph = graph
        self._roots = roots
        self._bases = bases
        self._given = {node: writes(node) for node in bases}
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
        assert variant is not None
        if variant.outputs:
            self._replace_with_outputs(node, variant.op, variant.outputs)
            return
        written = self._base(node)
        val = node.meta.get("val", written.meta.get("val"))
        dtype = val.dtype if isinstance(val, torch.Tensor) else None
        new = insert_call(self._graph, variant.op, node.args, val, node, "functional", node.kwargs)
        others = [a.meta.get("val") for a in new.all_input_nodes[1:]] + [a for a in new.args if isinstance(a, float)]
        if dtype is not None and any(_promotes(other, dtype) for other in others):
            new.meta["val"] = _result(variant.op, new, val)
            if new.meta["val"].dtype != dtype:
                new = insert_call(self._graph, CAST, (new,), val, node, "cast", {"dtype": dtype})
        self._write(written, new)
        root = self._roots[node]
        self._made[node] = (self.generation[root], new)

    def _replace_with_outputs(self, node: Node, variant: OpOverload, outputs: tuple[str, ...]) -> None:
        """An op that was given tensors for its results: these hold them from here on, cast to their dtypes."""
        kwargs = {name: value for name, value in node.kwargs.items() if name not in outputs}
        vals = _vals(node)
        new = insert_call(self._graph, variant, node.args, node.meta["val"], node, "functional", kwargs)
        made = _result(variant, new, vals[0])
        new.meta["val"] = made
        single = isinstance(made, torch.Tensor)
        for index, (given, val) in enumerate(zip(self._given[node], vals, strict=True)):
            held, own = new, made
            if not single:
                own = made[index]
                held = insert_call(self._graph, operator.getitem, (new, index), own, node, f"result_{index}")
            if own.dtype != val.dtype:
                held = insert_call(self._graph, CAST, (held,), val, node, "cast", {"dtype": val.dtype})
            self._write(given, held)
            for user in [node] if single else [one for one in node.users if one.args[1] == index]:
                user.replace_all_uses_with(given)
        for user in list(node.users):
            self._graph.erase_node(user)

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
            base, pieces = self._base(node), list_of_views(node)
            chain.append((node, value))
            if pieces is not None and base is pieces:
                base = self._base(pieces)
                value = element_scattered(self._graph, node, pieces, self.value(base), value, base.meta["val"])
            elif not writes(node):
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
