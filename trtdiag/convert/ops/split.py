"""One tensor cut into several along a dim."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.negative_indices import clamped_start
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.symbolic import Expr, Num, add, floordiv, minimum, mod, mul

Parts = Sequence["Value | None"]


@converter
def split(call: Call) -> Parts:
    """aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
    aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]
    aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]
    """
    size = call.size("split_size")
    return _parts(call, [mul(index, size) for index in range(len(call.outputs))])


@converter
def split_with_sizes(call: Call) -> Parts:
    """aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]
    aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]
    aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]
    aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]
    """
    sizes = call.sizes("split_size" if call.op_name == "split" else "split_sizes")
    return _parts(call, [add(0, *sizes[:index]) for index in range(len(sizes))])


@converter
def chunk(call: Call) -> Parts:
    """aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]
    aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]
    """
    x, chunks = call.tensor("self"), call.integer("chunks")
    size = floordiv(add(x.shape[call.axis("dim", x.rank)], chunks - 1), chunks)
    return _parts(call, [mul(index, size) for index in range(len(call.outputs))])


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


def _parts(call: Call, starts: Sequence[Expr]) -> Parts:
    """The parts that are read."""
    x = call.tensor("self")
    axis = call.axis("dim", x.rank)
    return [
        None if out is None else call.write.part(x, axis, start, out.shape[axis])
        for start, out in zip(starts, call.outputs, strict=True)
    ]
