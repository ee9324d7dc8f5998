"""Rotary position embedding, which models write with seven layers and more, as TensorRT's layer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch

from trtdiag.convert.layer_writers.layer_patterns import (
    combined,
    flattened,
    joined,
    number,
    part_of,
    without_new_dim,
)
from trtdiag.convert.writer import Writer
from trtdiag.network.layers.activation import Activation
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.constant import Constant
from trtdiag.network.layers.elementwise import ElementWise
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.gather import Gather, GatherMode
from trtdiag.network.layers.rotary_embedding import RotaryEmbedding
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
    if len(both) != 2 or width is None or width % 2:
        return None
    if both[0].made_by != Unary(UnaryOperation.NEG):
        return None
    second, first = part_of(both[0].sources[0]), part_of(both[1])
    if first is None or second is None or first.whole.id != second.whole.id or first.whole.shape[-1] != Num(width):
        return None
    places = (0, 1) if interleaved else (0, width // 2)
    step = 2 if interleaved else 1
    halves = (width // 2,) * 2
    right = (first.start, second.start) == places and (first.step, second.step) == (step, step)
    return first.whole if right and (first.size, second.size) == halves else None


def _of_halves(write: Writer, first: Value, second: Value) -> Value | None:
    difference, total = combined(first, Op.SUB), combined(second, Op.SUM)
    if difference is None or total is None:
        return None
    for (a, cos), (b, sin) in product(_factors(difference[0]), _factors(difference[1])):
        wanted = {frozenset((b.id, cos.id)), frozenset((a.id, sin.id))}
        if {frozenset(value.id for value in pair) for one in total for pair in _first(one)} != wanted:
            continue
        one, other = part_of(a), part_of(b)
        if one is None or other is None or one.whole.id != other.whole.id or (one.step, other.step) != (1, 1):
            continue
        if one.start == 0 and one.size == other.start == other.size and one.whole.shape[-1] == Num(2 * one.size):
            return _layer(write, one.whole, cos, sin, False, halved=True)
    return None


def _first(x: Value) -> list[tuple[Value, Value]]:
    return list(_factors(x))[:1]


def _with_rest(write: Writer, turned: Value, rest: Value) -> Value | None:
    """The layer for a first part, and the elements behind that part: TensorRT's layer lets them through."""
    layer = turned.made_by
    if not isinstance(layer, RotaryEmbedding) or layer.rotary_embedding_dim:
        return None
    x, *angles = turned.sources
    first, behind = part_of(x), part_of(rest)
    if first is None or behind is None or first.whole.id != behind.whole.id:
        return None
    if (first.start, first.step, behind.start, behind.step) != (0, 1, first.size, 1):
        return None
    if first.whole.shape[-1] != Num(first.size + behind.size):
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


def _says_twice(x: Value, interleaved: bool) -> bool:
    """Whether both elements of each pair in the last dim are equal by how x was made.

    It looks back, through layers that treat all elements of the last dim alike, to the one that wrote them twice.
    """
    for _ in range(_DEPTH):
        if _is_doubled(x, interleaved):
            return True
        before = _alike(x)
        if before is None:
            return False
        x = before
    return False


def _is_doubled(x: Value, interleaved: bool) -> bool:
    layer = x.made_by
    if isinstance(layer, Constant):
        return _has_equal_pairs(x.builder.weight(layer), interleaved)
    pairs = flattened(x) if interleaved else x
    both = joined(pairs) if pairs is not None else ()
    if both:
        return len(both) == 2 and both[0].id == both[1].id and (not interleaved or both[0].shape[-1] == Num(1))
    if pairs is None or not interleaved:
        return False
    # Neighbours by repeat_interleave: one element read twice.
    return _repeats_last(pairs)


def _has_equal_pairs(content: torch.Tensor, interleaved: bool) -> bool:
    count = content.shape[-1] // 2 if content.dim() else 0
    if not count or content.shape[-1] % 2:
        return False
    pairs = content.reshape(-1, *((count, 2) if interleaved else (2, count)))
    first, second = pairs.unbind(-1 if interleaved else 1)
    return torch.equal(first, second)


def _repeats_last(x: Value) -> bool:
    layer = x.made_by
    if not isinstance(layer, Slice) or layer.mode is not SampleMode.STRICT_BOUNDS:
        return False
    return x.sources[0].shape[-1] == Num(1) and isinstance(layer.stride, tuple) and not layer.stride[-1]


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
    if isinstance(layer, Shuffle):
        ends = all(order is None or order[-1] == len(order) - 1 for order in (layer.first, layer.second))
        return first if ends else None
    if isinstance(layer, Unsqueeze):
        return first if last not in layer.axes else None
    if isinstance(layer, Squeeze):
        return first if first.rank - 1 not in layer.axes else None
    if isinstance(layer, Slice):
        whole = isinstance(layer.start, tuple) and isinstance(layer.stride, tuple)
        whole = whole and layer.mode is SampleMode.STRICT_BOUNDS
        return first if whole and layer.start[last] == 0 and layer.stride[last] == 1 else None  # type: ignore[index]
    if isinstance(layer, Gather) and layer.mode is GatherMode.DEFAULT:
        return first if layer.axis != first.rank - 1 else None
    return None
