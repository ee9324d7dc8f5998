"""Indices as layers take them: never negative, of one shape; tensors of them, and numbers that are known."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trtdiag.convert.refusal import refuse
from trtdiag.convert.reshape_writer import Size
from trtdiag.convert.writer import Writer
from trtdiag.network import INDICES, Placed, ShapeConstraints, Value
from trtdiag.network.known_values import greater, lesser
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.constant import Constant, Fill
from trtdiag.network.layers.elementwise import ElementWise, Select
from trtdiag.network.layers.gather import Gather
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.network.layers.reduce import Reduce, TopK
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.squeeze import Shape as ShapeLayer, Squeeze, Unsqueeze
from trtdiag.shapes.op_call import Shape
from trtdiag.symbolic import Expr, Num, Relation, add, as_expr, compare, to_text, where


def counted_from_the_front(write: Writer, index: Value, size: Expr, content: torch.Tensor | None = None) -> Value:
    """``index`` with ``size`` added where it is negative; as it is where it is seen to be nowhere negative.

    Args:
        write: Writes layers.
        index: Integers.
        size: Of the dim that they point into.
        content: Their values, where the program brings them.
    """
    index = write.cast(index, index.dtype if index.dtype in INDICES else write.index)
    known = index.tensor.values
    if known is not None and all(write.builder.facts.at_least(value, 0) for value in known):
        return index
    if content is not None and (content.numel() == 0 or int(content.min()) >= 0):
        return index
    if never_negative(write, index):
        return index
    length = write.size_like(size, index)
    return write.select(index < 0, index + length, index)


def common_shape(write: Writer, shapes: Sequence[Shape]) -> Shape:
    """The shape to which all of ``shapes`` broadcast.

    Two sizes that are nowhere 1 must be equal, or PyTorch refuses the call; then so does a run of the network.
    """
    facts = write.builder.facts
    rank = max(len(shape) for shape in shapes)
    found: list[Expr] = [Num(1)] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            both = facts.broadcast(found[axis], size)
            if both is None and facts.at_least(found[axis], 2) and facts.at_least(size, 2):
                facts.require_equal(found[axis], size)
                both = found[axis]
            if both is None:
                raise refuse(
                    "broadcast-unknown",
                    f"{to_text(found[axis])} and {to_text(size)} meet in a dim, and either may be 1 or not",
                    "declare both with one Dim, or each with a min of 2 or more",
                )
            found[axis] = both
    return tuple(found)


def fitted(write: Writer, x: Value, shape: Sequence[Expr]) -> Value:
    """``x``, whose dims are as in ``shape`` or 1 because the op demands it, also where nothing proves it."""
    facts = write.builder.facts
    for axis, size in enumerate(shape):
        if facts.broadcast(x.shape[axis], size) is None:
            x = write.part(x, axis, 0, size)
    return x


def with_dims(write: Writer, x: Value) -> Value:
    """``x`` with one dim where it has none."""
    return x if x.rank else write.reshape(x, [1])


def moved(rank: int, axis: int, to: int) -> list[int]:
    """The order of dims in which ``axis`` stands at ``to`` and the others keep theirs."""
    order = [dim for dim in range(rank) if dim != axis]
    order.insert(to, axis)
    return order


def inverse(order: Sequence[int]) -> list[int]:
    """The order that undoes ``order``."""
    return [list(order).index(dim) for dim in range(len(order))]


def expr_from_the_front(index: Expr, size: Expr, facts: ShapeConstraints) -> Expr:
    """``index``, or ``size + index`` where it is negative; an index known when the network runs decides then."""
    if facts.at_least(index, 0):
        return index
    if facts.never_at_least(index, 0):
        return add(size, index)
    return where(compare(Relation.LT, index, 0), add(size, index), index)


def clamped_start(index: Expr, size: Expr, facts: ShapeConstraints) -> Expr:
    """Where a slice begins: an index from either end, not before the first and not behind the last element."""
    return lesser(greater(expr_from_the_front(index, size, facts), Num(0), facts), size, facts)


def index_grid(write: Writer, sizes: Sequence[Size], steps: Sequence[int]) -> Value:
    """At index ``(i, j, ...)`` the index ``i * steps[0] + j * steps[1] + ...``."""
    shape, inputs = write.attribute([as_expr(size) for size in sizes])
    return write.add(Fill(shape, write.index, 0, tuple(steps)), *inputs)


# Integers that are seen to be nowhere negative, by the layers that made them.


_MOST_LAYERS = 32
"""Own choice: places that were found, sorted, cut and cast on the way are a handful of layers away."""

_PLACES = (NonZero, ShapeLayer)
_MOVES = (Shuffle, Squeeze, Unsqueeze, Identity, Gather)  # the first input, elsewhere


def never_negative(write: Writer, index: Value) -> bool:
    """Whether every element of ``index`` is 0 or more whatever the network is given; a doubt is a no."""
    waiting, seen = [index.id], {index.id}
    while waiting:
        number = waiting.pop()
        placed = write.builder.producer(number)
        sources = None if placed is None or len(seen) > _MOST_LAYERS else _decided_by(write, placed, number)
        if sources is None:
            return False
        waiting += [source for source in sources if source not in seen]
        seen.update(sources)
    return True


def _decided_by(write: Writer, placed: Placed, number: int) -> tuple[int, ...] | None:
    """The inputs that must not be negative for an output not to be; ``None`` where that says nothing."""
    layer = placed.layer
    if isinstance(layer, _PLACES) or (isinstance(layer, TopK) and number == placed.outputs[1]):
        return ()
    if isinstance(layer, Constant):
        weight = write.builder.weight(layer)
        return () if not weight.numel() or (not weight.is_floating_point() and int(weight.min()) >= 0) else None
    if isinstance(layer, _MOVES) or (isinstance(layer, Slice) and layer.mode is not SampleMode.FILL):
        return placed.inputs[:1]
    if isinstance(layer, Select):
        return placed.inputs[1:]
    # To fewer bits a number may come out negative: the type plan casts where it has shown that it does not.
    extreme = isinstance(layer, (Reduce, ElementWise)) and layer.op.name in ("MAX", "MIN")
    return placed.inputs if extreme or isinstance(layer, (Cast, Concatenation)) else None
