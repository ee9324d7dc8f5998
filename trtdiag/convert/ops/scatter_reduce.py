"""Elements put to places along a dim, over what is there or together with it."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.indices import inverse, moved, with_dims
from trtdiag.convert.layer_writers.reduction import precise, wide
from trtdiag.convert.layer_writers.scatter import overwritten
from trtdiag.convert.layer_writers.scatter_add import Folded, folded_by_element, neutral
from trtdiag.convert.registry import converter
from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.reduce import ReduceOperation as Fold
from trtdiag.network.layers.scatter import ScatterMode
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.value import Value

_FOLDS = {
    "sum": Fold.SUM,
    "add": Fold.SUM,
    "mean": Fold.SUM,
    "prod": Fold.PROD,
    "multiply": Fold.PROD,
    "amax": Fold.MAX,
    "amin": Fold.MIN,
}
_JOINED = {Fold.SUM: Op.SUM, Fold.PROD: Op.PROD, Fold.MAX: Op.MAX, Fold.MIN: Op.MIN}


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
    found = folded_by_element(write, index, source, there.shape[-1], fold, count=counted)
    found = _reaching(write, found, there, fold)
    made = _combined(write, there, found, fold, mean=reduce == "mean", include_self=include_self)
    return write.reshape(write.cast(write.permute(made, inverse(order)), x.dtype), x.shape)


def _reaching(write: Writer, found: Folded, like: Value, fold: Fold) -> Folded:
    """Neutral where the index does not reach in other dims."""
    facts = write.builder.facts
    if all(facts.equal(*pair) for pair in zip(found.values.shape, like.shape, strict=True)):
        return found

    def filled(x: Value, fill: float) -> Value:
        zeros, ones = [0] * x.rank, [1] * x.rank
        return write.slice(x, zeros, like.shape, ones, SampleMode.FILL, write.number(fill, x.dtype))

    values = filled(found.values, neutral(fold, found.values.dtype))
    return Folded(values, None if found.counts is None else filled(found.counts, 0))


def _combined(write: Writer, there: Value, found: Folded, fold: Fold, *, mean: bool, include_self: bool) -> Value:
    values = found.values
    if include_self:
        values = write.elementwise(_JOINED[fold], there, values)
    if found.counts is None:
        return values
    counts = write.cast(found.counts, there.dtype)
    if mean:
        own = 1 if include_self else 0
        over = (counts + own).maximum(1)
        values = write.elementwise(Op.DIV if there.dtype.is_float else Op.FLOOR_DIV, values, over)
    if include_self:
        return values
    return write.select(~counts.eq(0), values, there)
