"""Replaces each op that has a decomposition and is not kept by what its decomposition traces to."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.operators import schema_name, writes
from trtdiag.graph.recurrent import is_recurrent, longest_unrolled, why_not_unrolled
from trtdiag.lower.decomposable import decomposition_of, stays_whole
from trtdiag.lower.draft import Draft, insert_steps
from trtdiag.lower.local_trace import Tracer
from trtdiag.lower.template import Ref, Template, UntraceableError, filled, replaced, with_refs

_HIDDEN_VIEWS = frozenset(
    {
        *("aten::einsum", "aten::meshgrid", "aten::broadcast_tensors", "aten::cartesian_prod", "aten::histogramdd"),
        *("aten::atleast_1d", "aten::atleast_2d", "aten::atleast_3d"),
    }
)
"""Ops whose results may be views of any of their arguments, which no schema tells."""


def take_hidden_views_apart(draft: Draft) -> int:
    """Splice in decompositions of ops that may hide views, where anything is changed in place: they are seen then."""
    if not any(writes(node) for node in draft.graph.nodes):
        return 0

    def kept(op: OpOverload) -> bool:
        return schema_name(op) not in _HIDDEN_VIEWS

    return _spliced(draft, Tracer(draft.mode, kept, draft.proofs), lambda _node, op: kept(op), set(), 0)


def decompose(draft: Draft) -> int:
    """Splice decompositions in, in graph order; the op's own name goes to its result.

    Cost: one trace for each distinct call, then about as much as copying the new nodes.
    """
    # A recurrent op that is taken apart is asked for again by its own decomposition.
    tracer = Tracer(draft.mode, lambda op: draft.keep(op) and not is_recurrent(op), draft.proofs)
    longest = longest_unrolled(draft.graph)
    count = _spliced(
        draft, tracer, lambda node, op: _kept(draft, node, op, longest), written_nodes(draft.graph), longest
    )
    draft.traced, draft.decomposed = tracer.traced, count
    return count


def _spliced(
    draft: Draft, tracer: Tracer, kept: Callable[[Node, OpOverload], bool], changed_in_place: set[Node], longest: int
) -> int:
    several: dict[Node, Any] = {}  # ops with several outputs: these, in the op's place
    count = 0
    for node in list(draft.graph.nodes):
        if several:
            _take_elements(node, several)
        if node.target is operator.getitem and node.args[0] in several:
            element = several[node.args[0]][node.args[1]]
            if isinstance(element, Node):
                node.replace_all_uses_with(element)
                draft.graph.erase_node(node)
            else:
                several[node] = element  # a list among the outputs, as of histogramdd
        elif isinstance(node.target, HigherOrderOperator):
            draft.limit(node, "it runs a nested graph, which is left whole")
        elif isinstance(op := node.target, OpOverload) and decomposition_of(op) and not kept(node, op):
            template = _template(draft, tracer, node, changed_in_place, longest)
            if template is not None:
                _splice(draft, node, template, several)
                count += 1
    for node in reversed(several):
        draft.graph.erase_node(node)
    return count


def _kept(draft: Draft, node: Node, op: OpOverload, longest: int) -> bool:
    """Whether a converter takes the op whole: a recurrent one as a loop, where its steps are too many to be written."""
    return draft.keep(op) and not (is_recurrent(op) and not why_not_unrolled(node, op, longest))


def _template(draft: Draft, tracer: Tracer, node: Node, changed_in_place: set[Node], longest: int) -> Template | None:
    op = node.target
    assert isinstance(op, OpOverload)
    why = stays_whole(node, op, longest)
    if not why and not changed_in_place.isdisjoint((node, *node.all_input_nodes)):
        why = "it reads memory that another op changes in place"
    if why:
        draft.limit(node, why)
        return None
    inputs, (args, kwargs) = with_refs((node.args, node.kwargs), Node)
    vals = [source.meta.get("val") for source in inputs]
    try:
        return tracer.template(op, args, kwargs, vals, node.meta.get("val"), _read_outputs(node))
    except UntraceableError as reason:
        draft.limit(node, str(reason))
        return None


def _read_outputs(node: Node) -> set[int] | None:
    """The outputs of an op with several that anything reads; ``None`` where it is taken whole."""
    if any(user.target is not operator.getitem for user in node.users):
        return None
    return {position for user in node.users if user.users and isinstance(position := user.args[1], int)}


def _splice(draft: Draft, node: Node, template: Template, several: dict[Node, Any]) -> None:
    values = insert_steps(draft.graph, node, template)
    single, last = isinstance(template.result, Ref), len(values) - 1
    if template.steps and template.result == Ref(last):
        # The program's own spelling of the sizes; the decomposition's may be written in another way.
        values[last].meta["val"] = node.meta["val"]
    result = filled(template.result, values)
    if not single:
        several[node] = result
        return
    name = node.name
    node.replace_all_uses_with(result)
    draft.graph.erase_node(node)
    if template.result.index >= template.inputs:
        result.name = name


def _take_elements(node: Node, several: dict[Node, Any]) -> None:
    """Give a node that takes all outputs of an op at once the list of them."""
    if node.target is operator.getitem or not any(source in several for source in node.all_input_nodes):
        return
    node.args = replaced(node.args, lambda source: several.get(source, source), Node)
    node.kwargs = replaced(node.kwargs, lambda source: several.get(source, source), Node)
