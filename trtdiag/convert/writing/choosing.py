"""The places at which something stands: how many there are is known only when the network runs."""

from __future__ import annotations

import torch

from trtdiag.convert.refused import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network.builder import Value
from trtdiag.network.dtype import DType
from trtdiag.network.facts import product
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.symbolic import Expr, Num, Sym, to_text


def true_places(write: Writer, x: Value, count: Expr) -> Value:
    """The places at which ``x`` is not zero, (rank of x, count) in row-major order.

    Args:
        write: Writes layers.
        x: Of any dtype, with at least one dim.
        count: How the program calls their number.
    """
    if count == Num(0) and product(x.shape) == Num(0):
        return write.constant(torch.zeros(x.rank, 0, dtype=write.index.torch))
    if not write.target.counts:
        raise refuse(
            "data-dependent-shape",
            f"the data decides how many elements it finds, and TensorRT {write.target.version} does not build what then"
            " has such a size",
            "use torch.where with a mask, which keeps the shape, or torch.nonzero_static, or a later TensorRT",
        )
    if not isinstance(count, Sym):
        raise refuse(
            "count-asserted",
            f"the program asserts that it finds {to_text(count)} elements, and nothing in an engine checks that",
            "leave the assertion out",
        )
    known = write.chosen.get(count.name)
    if known is not None and known[0].id == x.id:
        return known[1]
    if known is not None or (write.sizes.at_hand(count) and not write.on_trial):
        raise refuse(
            "count-asserted",
            f"the program asserts that it finds as many elements as another op ({count.name}), and nothing in an engine"
            " checks that",
            "use the same mask for both",
        )
    made = write.add(NonZero(count.name, write.index), write.cast(x, DType.BOOL))
    write.chosen[count.name] = (x, made)
    return made


def places_in_row(write: Writer, x: Value, count: Expr) -> Value:
    """The same of an ``x`` with one dim, as a vector."""
    return write.reshape(true_places(write, x, count), [count])
