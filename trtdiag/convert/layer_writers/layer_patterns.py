"""What values of the network were made of: how a pattern of layers is recognised."""

from __future__ import annotations

from dataclasses import dataclass

from trtdiag.network import Given, Value
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.squeeze import Squeeze, Unsqueeze
from trtdiag.symbolic import Expr, Num


@dataclass(frozen=True)
class Part:
    """Every ``step``-th element of the last dim of a value, from ``start`` on, so many that ``size`` remain."""

    whole: Value
    start: int
    size: int
    step: int


def combined(x: Value, op: ElementWiseOperation) -> tuple[Value, Value] | None:
    """The two operands of an ElementWise."""
    layer = x.made_by
    if not isinstance(layer, ElementWise) or layer.op is not op:
        return None
    first, second = x.sources
    return first, second


def joined(x: Value) -> tuple[Value, ...]:
    """The values that a Concatenation along the last dim put one after the other; none where none did."""
    layer = x.made_by
    return x.sources if isinstance(layer, Concatenation) and layer.axis == x.rank - 1 else ()


def part_of(x: Value) -> Part | None:
    """X as a part of the last dim of another value, which has all other dims whole."""
    layer = x.made_by
    if not isinstance(layer, Slice) or isinstance(layer.start, Given) or isinstance(layer.stride, Given):
        return None
    whole, last = x.sources[0], x.rank - 1
    size = number(x.shape[last])
    facts = x.builder.facts
    others = range(last)
    rest = all(layer.start[axis] == 0 and layer.stride[axis] == 1 for axis in others)
    rest = rest and all(facts.equal(x.shape[axis], whole.shape[axis]) for axis in others)
    if size is None or not rest or layer.mode is not SampleMode.STRICT_BOUNDS:
        return None
    return Part(whole, layer.start[last], size, layer.stride[last])


def without_new_dim(x: Value, axis: int) -> Value | None:
    """What x was made of by a new dim of size 1 at ``axis``; ``None`` where it was not."""
    return _reshaped_from(x, [size for place, size in enumerate(x.shape) if place != axis])


def unrepeated_heads(x: Value) -> Value | None:
    """What x (batch, heads, steps, width) was made of by repeating each head some times; ``None`` where it was not.

    Models write it as a new dim behind the heads, which is made longer and joined with them.
    """
    if x.rank != 4 or not isinstance(x.made_by, Shuffle):
        return None
    spread = x.sources[0]
    own, times = (number(size) for size in spread.shape[1:3]) if spread.rank == 5 else (None, None)
    if own is None or times is None or Num(own * times) != x.shape[1]:
        return None
    layer = spread.made_by
    if _reshaped_from(x, [x.shape[0], Num(own), Num(times), *x.shape[2:]]) is None or not isinstance(layer, Slice):
        return None
    narrow, taken = spread.sources[0], (layer.mode, layer.start, layer.stride)
    if taken != (SampleMode.STRICT_BOUNDS, (0,) * 5, (1, 1, 0, 1, 1)) or narrow.shape[2] != Num(1):
        return None
    same = all(x.builder.facts.equal(narrow.shape[axis], spread.shape[axis]) for axis in (0, 1, 3, 4))
    return without_new_dim(narrow, 2) if same else None


def flattened(x: Value) -> Value | None:
    """What x was made of by two last dims made one, of which the second has 2 elements."""
    width = number(x.shape[-1]) if x.rank else None
    return _reshaped_from(x, [*x.shape[:-1], Num(width // 2), Num(2)]) if width and width % 2 == 0 else None


def _reshaped_from(x: Value, shape: list[Expr]) -> Value | None:
    """What a layer reshaped to x, where it has this shape."""
    layer, equal = x.made_by, x.builder.facts.equal
    moved = isinstance(layer, Shuffle) and (_moves(layer.first) or _moves_others(layer.second, x))
    if not isinstance(layer, (Shuffle, Squeeze, Unsqueeze)) or moved:
        return None
    before = x.sources[0]
    same = before.rank == len(shape) and all(equal(*pair) for pair in zip(before.shape, shape, strict=True))
    return before if same else None


def _moves(order: tuple[int, ...] | None) -> bool:
    return order is not None and list(order) != list(range(len(order)))


def _moves_others(order: tuple[int, ...] | None, x: Value) -> bool:
    """Whether an order changes that of the dims which are not 1: those of 1 may stand anywhere."""
    kept = [axis for place, axis in enumerate(order or ()) if x.shape[place] != Num(1)]
    return kept != sorted(kept)


def number(size: Expr) -> int | None:
    """A size that is a number."""
    return int(size.value) if isinstance(size, Num) else None
