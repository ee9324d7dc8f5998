"""Shapes given anew: expand, view, unflatten."""

from __future__ import annotations

from dataclasses import replace

from torch.fx import Node

from trtdiag.graph.operators import OpOverload, shared_argument
from trtdiag.shapes.op_call import OpCall
from trtdiag.shapes.op_demands.registry import asks
from trtdiag.shapes.shape_constraints import Demands, at_most, elements, equal, multiple, spread
from trtdiag.symbolic import Expr, Num, add, mul

_REST = Num(-1)


@asks("expand", "expand_copy", "broadcast_to")
def expand(call: OpCall) -> Demands:
    """Dims are repeated where they are 1, and stay where -1 is asked."""
    given, wanted = call.shape("self"), call.sizes("size")
    kept = [
        given[place - len(wanted)] if size == _REST and len(wanted) - place <= len(given) else size
        for place, size in enumerate(wanted)
    ]
    yield from spread(given, kept, "the tensor and the shape that it is expanded to")


@asks("expand_as")
def expand_as(call: OpCall) -> Demands:
    """The same, to the shape of another tensor."""
    yield from spread(call.shape("self"), call.shape("other"), "the tensor and the one that it is expanded to")


@asks("view", "reshape", "_unsafe_view", "view_copy", "_reshape_alias")
def view(call: OpCall) -> Demands:
    """As many elements before as after."""
    name = "shape" if call.given("shape") is not None else "size"
    if call.given(name) is not None:  # view.dtype gives none
        yield from _counted(elements(call.shape("self")), call.sizes(name), "elements before and after")


@asks("view_as", "reshape_as")
def view_as(call: OpCall) -> Demands:
    """The same, in the shape of another tensor."""
    yield from _counted(elements(call.shape("self")), list(call.shape("other")), "elements before and after")


@asks("unflatten")
def unflatten(call: OpCall) -> Demands:
    """One dim becomes several."""
    given = call.shape("self")
    yield from _counted(given[call.axis("dim", len(given))], call.sizes("sizes"), "the dim and what it is made into")


@asks("as_strided", "as_strided_copy")
def as_strided(call: OpCall) -> Demands:
    """The farthest element is one of a tensor that has its memory to itself: an input, or what an op has made."""
    node = call.given("self")
    own = isinstance(node, Node) and (
        node.op == "placeholder" or (isinstance(node.target, OpOverload) and shared_argument(node.target) is None)
    )
    if own:
        offset = Num(0) if call.given("storage_offset") is None else call.size("storage_offset")
        steps = zip(call.sizes("size"), call.sizes("stride"), strict=True)
        last = add(offset, *(mul(stride, add(size, -1)) for size, stride in steps))
        yield from at_most(add(last, 1), elements(call.shape("self")), "the farthest element and all there are")


def _counted(whole: Expr, parts: list[Expr], what: str) -> Demands:
    known = elements([size for size in parts if size != _REST])
    for demand in equal(whole, known, what) if _REST not in parts else multiple(whole, known, what):
        yield replace(demand, guarded=True)
