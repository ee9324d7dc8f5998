"""One tensor cut into several along a dim."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.negative_indices import clamped_start
from trtdiag.convert.registry import converter, register
from trtdiag.network.builder import Value
from trtdiag.symbolic import Expr, Num, add, floordiv, minimum, mod, mul

Parts = Sequence["Value | None"]


@converter
def split(call: Call) -> Parts:
    """aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    size = call.size("split_size")
    return _parts(call, [mul(index, size) for index in range(len(call.outputs))])


register("aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", split)
register("aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", split)


@converter
def split_with_sizes(call: Call) -> Parts:
    """aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return _parts(call, _running(call.sizes("split_sizes")))


register(
    "aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
    split_with_sizes,
)
register(
    "aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
    split_with_sizes,
)


@converter
def split_sizes(call: Call) -> Parts:
    """aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]"""
    return _parts(call, _running(call.sizes("split_size")))


@converter
def chunk(call: Call) -> Parts:
    """aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]"""
    x, chunks = call.tensor("self"), call.integer("chunks")
    size = floordiv(add(x.shape[call.axis("dim", x.rank)], chunks - 1), chunks)
    return _parts(call, [mul(index, size) for index in range(len(call.outputs))])


register("aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", chunk)


@converter
def tensor_split_sections(call: Call) -> Parts:
    """aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]"""
    x, sections = call.tensor("self"), call.integer("sections")
    size = x.shape[call.axis("dim", x.rank)]
    least, longer = floordiv(size, sections), mod(size, sections)  # the first parts have one element more
    return _parts(call, [add(mul(index, least), minimum(index, longer)) for index in range(len(call.outputs))])


@converter
def tensor_split_indices(call: Call) -> Parts:
    """aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]"""
    x, facts = call.tensor("self"), call.write.builder.facts
    size = x.shape[call.axis("dim", x.rank)]
    starts = [clamped_start(index, size, facts) for index in call.sizes("indices")]
    return _parts(call, [Num(0), *starts])


def _running(sizes: Sequence[Expr]) -> list[Expr]:
    """Where each part begins."""
    return [add(0, *sizes[:index]) for index in range(len(sizes))]


def _parts(call: Call, starts: Sequence[Expr]) -> Parts:
    """The parts that are read."""
    x = call.tensor("self")
    axis = call.axis("dim", x.rank)
    return [
        None if out is None else call.write.part(x, axis, start, out.shape[axis])
        for start, out in zip(starts, call.outputs, strict=True)
    ]
