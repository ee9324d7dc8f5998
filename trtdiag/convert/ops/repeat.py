"""Elements repeated: expand, tile, repeat, meshgrid."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, converter
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, mul


@converter
def expand(call: Call) -> Value:
    """aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)
    aten::expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor
    aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)
    aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)
    """
    return call.write.broadcast_to(call.tensor("self"), call.out.shape)


@converter
def repeat(call: Call) -> Value:
    """aten::repeat(Tensor self, SymInt[] repeats) -> Tensor
    aten::tile(Tensor self, SymInt[] dims) -> Tensor
    """
    # Read round and round, in one layer.
    write, shape = call.write, call.out.shape
    x = write.with_rank(call.tensor("self"), len(shape))
    facts = write.builder.facts
    if all(size == Num(1) or facts.equal(size, goal) for size, goal in zip(x.shape, shape, strict=True)):
        return write.broadcast_to(x, shape)
    return write.slice(x, [0] * x.rank, shape, [1] * x.rank, SampleMode.WRAP)


@converter
def broadcast_tensors(call: Call) -> Sequence[Value | None]:
    """aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]"""
    pairs = zip(call.tensors("tensors"), call.outputs, strict=True)
    return [None if out is None else call.write.broadcast_to(x, out.shape) for x, out in pairs]


@converter
def repeat_interleave(call: Call) -> Value:
    """aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *,
    SymInt? output_size=None) -> Tensor
    """
    write, x, repeats = call.write, call.tensor("self"), call.size("repeats")
    if not call.has("dim"):
        x = write.reshape(x, [mul(*x.shape) if x.rank else Num(1)])
    axis = call.axis("dim", x.rank) if call.has("dim") else 0
    shape: list[Expr] = list(x.shape)
    shape.insert(axis + 1, repeats)
    return write.reshape(write.broadcast_to(write.unsqueeze(x, [axis + 1]), shape), call.out.shape)


@converter
def meshgrid(call: Call) -> Sequence[Value | None]:
    """aten::meshgrid(Tensor[] tensors) -> Tensor[]
    aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]
    """
    write, lines = call.write, call.tensors("tensors")
    places = list(range(len(lines)))
    if call.arguments.get("indexing") == "xy" and len(lines) >= 2:
        places[:2] = [1, 0]
    found: list[Value | None] = []
    for line, place, out in zip(lines, places, call.outputs, strict=True):
        if out is None:
            found.append(None)
            continue
        line = write.unsqueeze(line, [0]) if line.rank == 0 else line
        around = [axis for axis in range(len(lines)) if axis != place]
        found.append(write.broadcast_to(write.unsqueeze(line, around), out.shape))
    return found
