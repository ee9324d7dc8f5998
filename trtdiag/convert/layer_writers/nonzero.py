"""The places at which something stands: how many there are is known only when the network runs."""

from __future__ import annotations

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr, Num, Sym, to_text


def true_places(write: Writer, x: Value, count: Expr) -> Value:
    """The places at which ``x`` is not zero, (rank of x, count) in row-major order.

    Args:
        write: Writes layers.
        x: Of any dtype, with at least one dim.
        count: How the program calls their number.
    """
    if count == Num(0) and elements(x.shape) == Num(0):
        return write.constant(torch.zeros(x.rank, 0, dtype=write.index.torch))
    if not write.target.counts:
        raise refuse(
            "data-dependent-shape",
            f"the data decides how many elements it finds, and {write.target.name} does not build what then"
            " has such a size",
            "use torch.where with a mask, which keeps the shape, or torch.nonzero_static, or a later TensorRT",
        )
    if not isinstance(count, Sym):
        raise refuse(
            "count-asserted",
            f"the program asserts that it finds {to_text(count)} elements, and nothing in an engine checks that",
            "leave the assertion out",
        )
    key = (count.name, x.id)
    if key not in write.chosen:
        own = _own_symbol(write, count)
        made = write.add(NonZero(own.name, write.index), write.cast(x, DType.BOOL))
        write.chosen[key] = (own.name, x, made)
    return write.chosen[key][2]


def _own_symbol(write: Writer, count: Sym) -> Sym:
    """The symbol itself, or where another tensor has that size already one of its own that is said to be equal.

    That it is, the program asserts: a run makes sure of it (``asserted``).
    """
    born = {own for own, _, _ in write.chosen.values()}
    if count.name not in born and not write.sizes.at_hand(count):
        return count
    number = 1
    while f"{count.name}_{number}" in born or f"{count.name}_{number}" in write.builder.facts.ranges:
        number += 1
    return write.builder.facts.same_as(f"{count.name}_{number}", count)


def tensor_with_dims(call: Call, name: str) -> Value:
    """A tensor argument; refused without dims."""
    x = call.tensor(name)
    if x.rank == 0:
        raise refuse("no-dims", f"{name} has no dims, and no layer gives places without indices", "give it a dim")
    return x
