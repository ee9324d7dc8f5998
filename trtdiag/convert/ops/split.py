"""One tensor cut into several along a dim."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.indices import clamped_start
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, add, floordiv, minimum, mod, mul

Parts = Sequence["Value | None"]


@converter
def split(call: Call) -> Parts:
    """aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
    aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]
    aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]
    aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]
    aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]
    aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]
    aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]
    aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]
    aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]
    aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]
    aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]
    """
    x = call.tensor("self")
    axis = call.axis("dim", x.rank)
    return [
        None if out is None else call.write.part(x, axis, start, out.shape[axis])
        for start, out in zip(_starts(call, x.shape[axis]), call.outputs, strict=True)
    ]


def _starts(call: Call, size: Expr) -> Sequence[Expr]:
    """Where each part of a dim begins."""
    places = range(len(call.outputs))
    match list(call.arguments)[1]:
        case "chunks":
            chunks = call.integer("chunks")
            each = floordiv(add(size, chunks - 1), chunks)
        case "sections":
            sections = call.integer("sections")
            least, longer = floordiv(size, sections), mod(size, sections)  # the first parts have one element more
            return [add(mul(index, least), minimum(index, longer)) for index in places]
        case "indices":
            facts = call.write.builder.facts
            return [Num(0), *(clamped_start(index, size, facts) for index in call.sizes("indices"))]
        case "split_size" if not isinstance(call.arguments["split_size"], list):
            each = call.size("split_size")
        case name:
            sizes = call.sizes(name)
            return [add(0, *sizes[:index]) for index in range(len(sizes))]
    return [mul(index, each) for index in places]
