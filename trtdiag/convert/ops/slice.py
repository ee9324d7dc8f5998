"""Parts of a tensor: slices, single rows, windows."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, Writer, converter, refuse
from trtdiag.convert.layer_writers.indices import clamped_start, expr_from_the_front, index_grid, moved
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num


@converter
def slice_(call: Call) -> Value:
    """aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)
    aten::slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor
    aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)
    aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor
    """
    x, write, clamps = call.tensor("self"), call.write, "step" in call.arguments
    axis = call.axis("dim", x.rank)
    begin = clamped_start if clamps else expr_from_the_front
    start = begin(call.size_or_none("start") or Num(0), x.shape[axis], write.builder.facts)
    return write.part(x, axis, start, call.out.shape[axis], call.integer("step") if clamps else 1)


@converter
def select(call: Call) -> Value:
    """aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)
    aten::select_copy.int(Tensor self, int dim, SymInt index) -> Tensor
    """
    x, write = call.tensor("self"), call.write
    axis = call.axis("dim", x.rank)
    index = expr_from_the_front(call.size("index"), x.shape[axis], write.builder.facts)
    return _picked(write, x, axis, index)


@converter
def unbind(call: Call) -> Sequence[Value | None]:
    """aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]
    aten::unbind_copy.int(Tensor self, int dim=0) -> Tensor[]
    """
    x, write = call.tensor("self"), call.write
    axis = call.axis("dim", x.rank)
    return [None if out is None else _picked(write, x, axis, Num(index)) for index, out in enumerate(call.outputs)]


@converter
def unfold(call: Call) -> Value:
    """aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)
    aten::unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor
    """
    x, write = call.tensor("self"), call.write
    if not x.rank:
        raise refuse("rank", "a tensor without dims has no windows")
    axis, size, step = call.axis("dimension", x.rank), call.integer("size"), call.integer("step")
    windows = write.gather(x, index_grid(write, [call.out.shape[axis], size], [step, 1]), axis)
    return write.permute(windows, moved(windows.rank, axis + 1, x.rank))


def _picked(write: Writer, x: Value, axis: int, index: Expr) -> Value:
    """One element along a dim, without that dim: a slice where TensorRT may read it in its place."""
    if isinstance(index, Num) and x.dtype.is_float and x.rank > 1:
        return write.squeeze(write.part(x, axis, index, 1), [axis])
    return write.gather(x, write.place(index), axis)
