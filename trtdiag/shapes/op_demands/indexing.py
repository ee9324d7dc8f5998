"""Reading and writing at indices."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trtdiag.graph.values import TensorValue
from trtdiag.shapes.op_call import OpCall, UnreadableError
from trtdiag.shapes.op_demands.registry import asks
from trtdiag.shapes.shape_constraints import (
    Demands,
    alike,
    all_alike,
    at_most,
    broadcast_shape,
    elements,
    equal,
    same_shape,
    spread,
)
from trtdiag.shapes.size_values import ends_of
from trtdiag.symbolic import INT64_MAX, Expr, Num, add, floordiv, maximum, minimum, neg, sub
from trtdiag.symbolic.build import ZERO

_MASKS = (torch.bool, torch.uint8)


@asks("index", "_unsafe_index")
def index(call: OpCall) -> Demands:
    """Indices broadcast together and lie inside; a mask has the dims that it stands for."""
    yield from _fitting(call, call.shape("self"), call.optional_tensors("indices"))


@asks("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(call: OpCall) -> Demands:
    """The same, and the values are repeated to what the indices choose."""
    given, indices = call.shape("self"), call.optional_tensors("indices")
    yield from _fitting(call, given, indices)
    if all(one is None or one.dtype not in _MASKS for one in indices):
        yield from spread(call.shape("values"), _chosen(given, indices), "the values and what the indices choose")


def _fitting(call: OpCall, given: Sequence[Expr], indices: Sequence[TensorValue | None]) -> Demands:
    place, named = 0, call.given("indices")
    nodes = named if isinstance(named, (list, tuple)) else ()
    for node, one in zip(nodes, indices, strict=True):
        if one is None:
            place += 1
        elif one.dtype in _MASKS:
            yield from same_shape(one.dims, given[place : place + len(one.dims)], "the mask and the tensor")
            place += len(one.dims)
        else:
            yield from _pointing(call, node, given[place], below_zero=True)
            place += 1
    yield from all_alike([one.dims for one in indices if one is not None and one.dtype not in _MASKS], "the indices")


def _pointing(call: OpCall, indices: object, size: Expr, *, below_zero: bool = False) -> Demands:
    """Indices that sizes decide, as positions that ``arange`` counts, lie inside a dim.

    Args:
        call: The call.
        indices: Its argument.
        size: Of the dim that they point into.
        below_zero: Whether they may count from the end.
    """
    ends = ends_of(indices, call.reader) if isinstance(indices, torch.fx.Node) else None
    if ends is None:
        return
    yield from at_most(add(ends[1], 1), size, "the greatest index and the dim")
    if not isinstance(ends[0], Num) or ends[0].value < 0:
        yield from at_most(neg(ends[0]), size if below_zero else ZERO, "the least index and the dim")


@asks("embedding")
def embedding(call: OpCall) -> Demands:
    """The indices lie inside the table."""
    yield from _pointing(call, call.given("indices"), call.shape("weight")[0])


@asks("index_select")
def index_select(call: OpCall) -> Demands:
    """The indices lie inside."""
    given = call.shape("self")
    if given:
        yield from _pointing(call, call.given("index"), given[call.axis("dim", len(given))])


def _chosen(given: Sequence[Expr], indices: Sequence[TensorValue | None]) -> tuple[Expr, ...]:
    """The shape of what integer indices choose: theirs in the place of theirs, in front where they stand apart."""
    places = [place for place, one in enumerate(indices) if one is not None]
    shape = broadcast_shape([one.dims for one in indices if one is not None])
    others = [size for place, size in enumerate(given) if place not in places]
    together = bool(places) and places[-1] - places[0] + 1 == len(places)
    front = places[0] if together else 0
    return (*others[:front], *shape, *others[front:])


@asks("gather")
def gather(call: OpCall) -> Demands:
    """Beside the dim that is gathered from, there are no more indices than elements."""
    yield from _inside(call.shape("index"), call.shape("self"), call, "the indices and the tensor")


@asks("scatter", "scatter_add", "scatter_reduce")
def scatter(call: OpCall) -> Demands:
    """The same, and there is a source for each index."""
    indices = call.shape("index")
    yield from _inside(indices, call.shape("self"), call, "the indices and the tensor")
    source = call.given("src")
    if isinstance(source, torch.fx.Node):
        for axis, (one, other) in enumerate(zip(indices, call.shape("src"), strict=False)):
            yield from at_most(one, other, f"dim {axis} of the indices and the source")


def _inside(indices: Sequence[Expr], given: Sequence[Expr], call: OpCall, what: str) -> Demands:
    along = call.axis("dim", len(given))
    for axis, (one, other) in enumerate(zip(indices, given, strict=False)):
        if axis != along:
            yield from at_most(one, other, f"dim {axis} of {what}")
    if given:
        yield from _pointing(call, call.given("index"), given[along])


@asks("index_copy", "index_add", "index_reduce")
def index_copy(call: OpCall) -> Demands:
    """A slice of the source for each index, of the shape of the tensor's."""
    given, source = call.shape("self"), call.shape("source")
    along = call.axis("dim", len(given))
    if len(given) != len(source) or not source:
        return
    yield from equal(elements(call.shape("index")), source[along], "the indices and the slices of the source")
    yield from _pointing(call, call.given("index"), given[along])
    for axis, (one, other) in enumerate(zip(given, source, strict=True)):
        if axis != along:
            yield from equal(one, other, f"dim {axis} of the tensor and the source")


@asks("put")
def put(call: OpCall) -> Demands:
    """A source for each index."""
    yield from equal(elements(call.shape("index")), elements(call.shape("source")), "the indices and the sources")


@asks("slice_scatter")
def slice_scatter(call: OpCall) -> Demands:
    """What is written has the shape of the slice."""
    given, written = list(call.shape("self")), call.shape("src")
    axis = call.axis("dim", len(given))
    given[axis] = _slice_length(call, given[axis])
    yield from same_shape(written, given, "what is written and the slice")


def _slice_length(call: OpCall, size: Expr) -> Expr:
    """How many elements ``start:end:step`` takes of ``size``.

    Raises:
        UnreadableError: An end is neither a number nor shown to be counted from the front.
    """
    start = _end(call, "start", size, ZERO)
    end = _end(call, "end", size, size)
    step = call.number("step", 1)
    taken = end if start == ZERO else maximum(0, sub(end, start))
    return taken if step == 1 else floordiv(add(taken, step - 1), step)


def _end(call: OpCall, name: str, size: Expr, default: Expr) -> Expr:
    if call.given(name) is None:
        return default
    given = call.size(name)
    if isinstance(given, Num):
        if given.value >= INT64_MAX:
            return size
        if given.value < 0:
            return maximum(0, add(size, given))
        return given if given == ZERO else minimum(given, size)
    return minimum(given, size)


@asks("select_scatter")
def select_scatter(call: OpCall) -> Demands:
    """What is written has the shape of the slice."""
    given = call.shape("self")
    axis = call.axis("dim", len(given))
    yield from same_shape(call.shape("src"), (*given[:axis], *given[axis + 1 :]), "what is written and the slice")


@asks("diagonal_scatter")
def diagonal_scatter(call: OpCall) -> Demands:
    """What is written has the shape of the diagonal."""
    given = call.shape("self")
    first, second = (call.number(name, default) % len(given) for name, default in (("dim1", 0), ("dim2", 1)))
    offset = call.number("offset")
    length = minimum(sub(given[first], max(-offset, 0)), sub(given[second], max(offset, 0)))
    others = [size for axis, size in enumerate(given) if axis not in (first, second)]
    yield from same_shape(call.shape("src"), (*others, length), "what is written and the diagonal")


@asks("take_along_dim")
def take_along_dim(call: OpCall) -> Demands:
    """Dims beside the one that is taken along broadcast."""
    given, indices = call.shape("self"), call.shape("indices")
    if call.given("dim") is not None and len(given) == len(indices):
        axis = call.axis("dim", len(given))
        yield from alike(given[:axis], indices[:axis], "the tensor and the indices before their dim")
        yield from alike(given[axis + 1 :], indices[axis + 1 :], "the tensor and the indices after their dim")


@asks("narrow", "narrow_copy")
def narrow(call: OpCall) -> Demands:
    """What is taken lies inside."""
    given, start = call.shape("self"), call.size("start")
    if isinstance(start, Num) and start.value < 0:
        raise UnreadableError("start")
    size = given[call.axis("dim", len(given))]
    yield from at_most(add(start, call.size("length")), size, "the end of what is taken and the dim")


@asks("select", "select_copy")
def select(call: OpCall) -> Demands:
    """The index lies inside."""
    given, place = call.shape("self"), call.size("index")
    size = given[call.axis("dim", len(given))]
    if isinstance(place, Num):
        needed = place.value + 1 if place.value >= 0 else -place.value
        yield from at_most(Num(needed), size, "the index and the dim")


@asks("topk")
def topk(call: OpCall) -> Demands:
    """No more are chosen than there are."""
    given = call.shape("self")
    axis = call.number("dim", -1) % max(len(given), 1)
    if given:
        yield from at_most(call.size("k"), given[axis], "k and the dim")


@asks("searchsorted")
def searchsorted(call: OpCall) -> Demands:
    """A row of boundaries for each row of values."""
    rows, values = call.shape("sorted_sequence"), call.optional_shape("self")
    if values is not None and len(rows) == len(values) > 1:
        yield from same_shape(rows[:-1], values[:-1], "the rows of boundaries and of values")
