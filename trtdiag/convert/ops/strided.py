"""Views by strides, where the memory that they look at is the tensor's own elements in order."""

from __future__ import annotations

from trtdiag.convert import Call, converter, refuse
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, add, mul, sub


@converter
def as_strided(call: Call) -> Value:
    """aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)

    Of a tensor that lies in memory in the order of its dims; memory beyond its elements is refused.

    aten::as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor

    As ``as_strided``.
    """
    write, x = call.write, call.tensor("self")
    if not call.reads_in_order:
        raise refuse("memory-layout", "its tensor does not lie in memory in the order of its dims, without gaps")
    sizes, strides = call.sizes("size"), call.sizes("stride")
    start = call.size_or_none("storage_offset") or Num(0)
    count: Expr = mul(1, *x.shape)
    last = add(start, *(mul(stride, sub(size, 1)) for size, stride in zip(sizes, strides, strict=True)))
    facts = write.builder.facts
    if not (facts.at_least(start, 0) and facts.at_least(sub(sub(count, 1), last), 0)):
        raise refuse("beyond-the-tensor", "it may look at memory beyond the elements of its tensor")
    flat = write.reshape(x, [count])
    rank = len(sizes)
    place = write.reshape(write.sizes.element(start), [1] * rank)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        steps = write.counting(size) * write.sizes.element(stride)
        place = place + write.along(steps, axis, rank)
    return write.gather(flat, place, 0)
