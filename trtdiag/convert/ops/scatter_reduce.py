"""Elements put to places along a dim, over what is there or together with it."""

from __future__ import annotations

from trtdiag.convert import Call, Writer, converter
from trtdiag.convert.layer_writers.indices import inverse, moved, with_dims
from trtdiag.convert.layer_writers.reduction import neutral, precise, wide
from trtdiag.convert.layer_writers.scatter import folded_by_element, folded_by_row
from trtdiag.convert.layer_writers.scatter_update import overwritten
from trtdiag.convert.layer_writers.segment_reduction import JOINED
from trtdiag.convert.layer_writers.spatial_dims import reaching
from trtdiag.network import DType, Value
from trtdiag.network.layers import ElementWiseOperation as Op, ReduceOperation as Fold, ScatterMode
from trtdiag.shapes.shape_constraints import elements

_FOLDS = {
    "sum": Fold.SUM,
    "add": Fold.SUM,
    "mean": Fold.SUM,
    "prod": Fold.PROD,
    "multiply": Fold.PROD,
    "amax": Fold.MAX,
    "amin": Fold.MIN,
}


@converter
def scatter(call: Call) -> Value:
    """aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor

    Where an index occurs twice the result is one of the elements, as in PyTorch.

    aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
    """
    write, x = call.write, call.tensor("self")
    index = with_dims(write, call.tensor("index"))
    axis = call.axis("dim", x.rank)
    made = overwritten(write, with_dims(write, x), index, _source(call), ScatterMode.ELEMENT, axis)
    return write.reshape(made, x.shape)


def _source(call: Call) -> Value:
    """The first elements of the source, as many as the index has in each dim, or as many of the one value."""
    write = call.write
    index = with_dims(write, call.tensor("index"))
    if "value" in call.arguments:
        return write.filled(index.shape, call.number("value"), call.tensor("self").dtype)
    source = with_dims(write, call.tensor("src"))
    for axis, size in enumerate(index.shape):
        source = write.part(source, axis, 0, size)
    return source


@converter
def scatter_reduce(call: Call) -> Value:
    """aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
    aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) ->
        Tensor
    aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor
    aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor
    """
    # The elements for each place folded, and joined with what is there, or in its place.
    write, x, source = call.write, call.tensor("self"), _source(call)
    reduce, include_self = call.arguments.get("reduce", "sum"), bool(call.arguments.get("include_self", True))
    fold = _FOLDS[reduce]
    if x.dtype is DType.BOOL and fold in (Fold.SUM, Fold.PROD):
        fold = Fold.MAX if fold is Fold.SUM else Fold.MIN
    dtype = precise(wide(x.dtype))
    order = moved(max(x.rank, 1), call.axis("dim", x.rank), max(x.rank, 1) - 1)
    there = write.permute(write.cast(with_dims(write, x), dtype), order)
    index = write.permute(with_dims(write, call.tensor("index")), order)
    source = write.permute(write.cast(source, dtype), order)
    counted = reduce == "mean" or not include_self
    made, counts = folded_by_element(write, index, source, there.shape[-1], fold, count=counted)
    # Neutral where the index does not reach in other dims.
    made = reaching(write, made, [0] * made.rank, there.shape, neutral(fold, dtype))
    if counts is not None:
        counts = reaching(write, counts, [0] * made.rank, there.shape, 0)
    made = _joined(write, there, made, counts, fold, mean=reduce == "mean", include_self=include_self)
    return write.reshape(write.cast(write.permute(made, inverse(order)), x.dtype), x.shape)


def _joined(
    write: Writer, there: Value, made: Value, counts: Value | None, fold: Fold, *, mean: bool, include_self: bool
) -> Value:
    """What was folded for each place with what is there, or in its place; ``counts`` says of how many it is."""
    dtype = there.dtype
    if include_self:
        made = write.elementwise(JOINED[fold], there, made)
    if counts is None:
        return made
    counts = write.cast(counts, dtype)
    if mean:
        over = (counts + int(include_self)).maximum(1)
        made = write.elementwise(Op.DIV if dtype.is_float else Op.FLOOR_DIV, made, over)
    return made if include_self else write.select(~counts.eq(0), made, there)


@converter
def index_reduce(call: Call) -> Value:
    """aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) ->
    Tensor
    """
    write, x = call.write, call.tensor("self")
    there, index, axis = with_dims(write, x), with_dims(write, call.tensor("index")), call.axis("dim", x.rank)
    reduce, include_self = call.arguments["reduce"], bool(call.arguments["include_self"])
    fold, dtype, order = _FOLDS[reduce], precise(wide(x.dtype)), moved(there.rank, axis, 0)
    front = write.permute(write.cast(there, dtype), order)
    source = write.cast(with_dims(write, call.tensor("source")), dtype)
    source = write.reshape(source, [*there.shape[:axis], index.shape[0], *there.shape[axis + 1 :]])
    rest = elements(front.shape[1:])
    rows = write.reshape(write.permute(source, order), [index.shape[0], rest])
    counted = reduce == "mean" or not include_self
    made, counts = folded_by_row(write, index, rows, front.shape[0], fold, count=counted)
    flat = write.reshape(front, [front.shape[0], rest])
    made = _joined(write, flat, made, counts, fold, mean=reduce == "mean", include_self=include_self)
    made = write.permute(write.reshape(made, front.shape), inverse(order))
    return write.reshape(write.cast(made, x.dtype), x.shape)
