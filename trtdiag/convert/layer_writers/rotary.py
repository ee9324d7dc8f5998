"""Rotary position embedding, which models write with seven layers and more, as TensorRT's layer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch

from trtdiag.convert.layer_writers.layer_patterns import (
    Part,
    combined,
    flattened,
    joined,
    number,
    part_of,
    without_new_dim,
)
from trtdiag.convert.writer import Writer
from trtdiag.network.layers.activation import Activation
from trtdiag.network.layers.attention import RotaryEmbedding
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.constant import Constant
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation as Op
from trtdiag.network.layers.gather import Gather, GatherMode
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.squeeze import Squeeze, Unsqueeze
from trtdiag.network.layers.unary import Unary, UnaryOperation
from trtdiag.network.value import Value
from trtdiag.symbolic import Num

_HEADS, _STEPS = 1, 2
"""Dims of an input (batch, heads, steps, width)."""
_DEPTH = 24
"""Own choice: layers to look back through from cosines to where their halves become one."""


def turned_sum(write: Writer, first: Value, second: Value) -> Value | None:
    """``x * cos + exchanged(x) * sin`` as one layer; ``None`` where the sum is not that.

    ``exchanged`` is ``(-b, a)`` for pairs ``(a, b)``, of halves or of neighbours.  ``cos`` and ``sin`` must say the
    same for both elements of a pair, by how they were made: then each result is that of the same two products.
    """
    if "RotaryEmbedding" not in write.target.layers or first.rank != 4 or not first.dtype.is_float:
        return None
    for straight, crossed in ((first, second), (second, first)):
        for (x, cos), (other, sin) in product(_factors(straight), _factors(crossed)):
            for interleaved in (False, True):
                source = _exchanged(other, interleaved)
                if source is not None and source.id == x.id:
                    return _layer(write, x, cos, sin, interleaved)
    return None


def turned_parts(write: Writer, values: list[Value]) -> Value | None:
    """The halves ``a * cos - b * sin`` and ``b * cos + a * sin`` of one tensor, put together, as one layer.

    So is a turned part with the rest of the tensor behind it.  ``None`` where it is neither.
    """
    if "RotaryEmbedding" not in write.target.layers or len(values) != 2:
        return None
    if values[0].rank != 4 or not values[0].dtype.is_float:
        return None
    return _with_rest(write, *values) or _of_halves(write, *values)


def _factors(x: Value) -> Iterator[tuple[Value, Value]]:
    """The operands of a product, each once as the first."""
    pair = combined(x, Op.PROD)
    if pair is not None:
        yield pair
        yield pair[::-1]


def _exchanged(x: Value, interleaved: bool) -> Value | None:
    """What ``(-b, a)`` was made of, for its pairs (a, b)."""
    pairs = flattened(x) if interleaved else x
    both = joined(pairs) if pairs is not None else ()
    if interleaved:
        both = tuple(one for y in both if (one := without_new_dim(y, y.rank - 1)) is not None)
    width = number(x.shape[-1])
    if len(both) != 2 or width is None or width % 2 or both[0].made_by != Unary(UnaryOperation.NEG):
        return None
    second, first = part_of(both[0].sources[0]), part_of(both[1])
    if first is None or first.whole.shape[-1] != Num(width):
        return None
    places, step = ((0, 1), 2) if interleaved else ((0, width // 2), 1)
    wanted = [Part(first.whole, place, width // 2, step) for place in places]
    return first.whole if [first, second] == wanted else None


def _of_halves(write: Writer, first: Value, second: Value) -> Value | None:
    difference, total = combined(first, Op.SUB), combined(second, Op.SUM)
    if difference is None or total is None:
        return None
    found = {frozenset(value.id for value in pair) for one in total if (pair := combined(one, Op.PROD)) is not None}
    for (a, cos), (b, sin) in product(_factors(difference[0]), _factors(difference[1])):
        one, other = part_of(a), part_of(b)
        if one is None or found != {frozenset((b.id, cos.id)), frozenset((a.id, sin.id))}:
            continue
        halves = [Part(one.whole, place, one.size, 1) for place in (0, one.size)]
        if [one, other] == halves and one.whole.shape[-1] == Num(2 * one.size):
            return _layer(write, one.whole, cos, sin, False, halved=True)
    return None


def _with_rest(write: Writer, turned: Value, rest: Value) -> Value | None:
    """The layer for a first part, and the elements behind that part: TensorRT's layer lets them through."""
    layer = turned.made_by
    if not isinstance(layer, RotaryEmbedding) or layer.rotary_embedding_dim:
        return None
    x, *angles = turned.sources
    first, width = part_of(x), number(rest.shape[-1])
    if first is None or width is None or first.whole.shape[-1] != Num(first.size + width):
        return None
    if (first.start, first.step) != (0, 1) or part_of(rest) != Part(first.whole, first.size, width, 1):
        return None
    return write.add(RotaryEmbedding(layer.interleaved, first.size), first.whole, *angles)


def _layer(write: Writer, x: Value, cos: Value, sin: Value, interleaved: bool, *, halved: bool = False) -> Value | None:
    """The layer, where cosines and sines are one for all heads; heads and steps exchanged where they stand so."""
    facts = write.builder.facts
    for heads, steps in ((_HEADS, _STEPS), (_STEPS, _HEADS)):
        width = Num(int(number(x.shape[3]) or 0) // (2 if halved else 1))
        alike = all(t.rank == 4 and t.shape[heads] == Num(1) and t.shape[3] == width for t in (cos, sin))
        if not alike or not all(facts.equal(t.shape[steps], x.shape[steps]) for t in (cos, sin)):
            continue
        if not all(t.shape[0] == Num(1) or facts.equal(t.shape[0], x.shape[0]) for t in (cos, sin)):
            continue
        if not halved and not all(_says_twice(t, interleaved) for t in (cos, sin)):
            return None
        angles = [_angles(write, t, heads, x, interleaved, halved) for t in (cos, sin)]
        order = (0, heads, steps, 3)
        y = write.add(RotaryEmbedding(interleaved), write.permute(x, order), *angles)
        return write.permute(y, order)
    return None


def _angles(write: Writer, table: Value, heads: int, x: Value, interleaved: bool, halved: bool) -> Value:
    """Cosines or sines as (batch, steps, pairs), written once for all that are turned by them."""
    rows = without_new_dim(table, heads)

    def made() -> Value:
        own = rows if rows is not None else write.squeeze(table, [heads])
        if not halved:
            own = write.part(own, 2, 0, Num(int(number(own.shape[2]) or 0) // 2), 2 if interleaved else 1)
        return write.broadcast_to(own, [x.shape[0], *own.shape[1:]])

    what = ("angles", table.id if rows is None else rows.id, heads, interleaved, halved, x.shape[0])
    return write.once(what, made)


def _says_twice(x: Value, interleaved: bool, depth: int = _DEPTH) -> bool:
    """Whether both elements of each pair in the last dim are equal by how x was made.

    It looks back, through layers that treat all elements of the last dim alike, to the one that wrote them twice.
    """
    before = _alike(x) if depth else None
    return _is_doubled(x, interleaved) or (before is not None and _says_twice(before, interleaved, depth - 1))


def _is_doubled(x: Value, interleaved: bool) -> bool:
    layer = x.made_by
    if isinstance(layer, Constant):
        return _has_equal_pairs(x.builder.weight(layer), interleaved)
    pairs = flattened(x) if interleaved else x
    if pairs is None:
        return False
    both = joined(pairs)
    if both:
        return len(both) == 2 and both[0].id == both[1].id and (not interleaved or both[0].shape[-1] == Num(1))
    # Neighbours by repeat_interleave: one element read twice.
    layer = pairs.made_by
    if not interleaved or not isinstance(layer, Slice) or layer.mode is not SampleMode.STRICT_BOUNDS:
        return False
    return pairs.sources[0].shape[-1] == Num(1) and isinstance(layer.stride, tuple) and not layer.stride[-1]


def _has_equal_pairs(content: torch.Tensor, interleaved: bool) -> bool:
    count = content.shape[-1] // 2 if content.dim() else 0
    if not count or content.shape[-1] % 2:
        return False
    pairs = content.reshape(-1, *((count, 2) if interleaved else (2, count)))
    first, second = pairs.unbind(-1 if interleaved else 1)
    return torch.equal(first, second)


def _alike(x: Value) -> Value | None:
    """What x was made of, its last dim the same and every element of it treated alike; ``None`` where that is open."""
    layer, inputs, last = x.made_by, x.sources, x.rank - 1
    if not inputs or not x.rank:
        return None
    if isinstance(layer, (Unary, Activation, Cast, Identity)):
        return inputs[0]
    if isinstance(layer, ElementWise):
        same = [value for value in inputs if value.shape[-1] != Num(1)]
        return same[0] if len(same) == 1 else None
    first = inputs[0]
    if not first.rank or first.shape[-1] != x.shape[-1]:
        return None
    match layer:
        case Shuffle(first=one, second=other):
            stays = all(order is None or order[-1] == len(order) - 1 for order in (one, other))
        case Unsqueeze(axes):
            stays = last not in axes
        case Squeeze(axes):
            stays = first.rank - 1 not in axes
        case Slice(start=tuple() as start, stride=tuple() as stride, mode=SampleMode.STRICT_BOUNDS):
            stays = (start[last], stride[last]) == (0, 1)
        case Gather(mode=GatherMode.DEFAULT, axis=axis):
            stays = axis != first.rank - 1
        case _:
            stays = False
    return first if stays else None
