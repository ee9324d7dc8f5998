"""What operations ask of the sizes that they are given: the one place for rules about shapes that must fit together.

The layers of the network refuse what does not fulfil them, and the dims stage reads from them what a program asks of
its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from trtdiag.symbolic import ONE, Expr, Relation, any_of, compare, maximum, mod, mul
from trtdiag.symbolic.expr import Condition, Min

Shape = Sequence[Expr]


SUMMED = "the dim that is summed over"


class Ask(Enum):
    """How two sizes have to stand to each other."""

    EQUAL = "equal"
    ALIKE = "equal, or one of them is 1"
    REPEATS = "equal, or the first is 1"
    AT_MOST = "the first is not larger"
    MULTIPLE = "the first is a multiple of the second"


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of two sizes.

    Attributes:
        ask: How they have to stand to each other.
        left: The first size.
        right: The second.
        what: Which they are in words (``dim 2 of key and value``).
        guarded: Whether tracing compares them, in every version of torch: where guards on them were kept, it is one.
    """

    ask: Ask
    left: Expr
    right: Expr
    what: str
    guarded: bool = False

    @property
    def condition(self) -> Condition:
        """The same as a condition over the symbols of both sizes."""
        same = compare(Relation.EQ, self.left, self.right)
        match self.ask:
            case Ask.EQUAL:
                return same
            case Ask.ALIKE:
                return any_of((same, compare(Relation.EQ, self.left, 1), compare(Relation.EQ, self.right, 1)))
            case Ask.REPEATS:
                return any_of((same, compare(Relation.EQ, self.left, 1)))
            case Ask.AT_MOST:
                return compare(Relation.LE, self.left, self.right)
            case Ask.MULTIPLE:
                return compare(Relation.EQ, mod(self.left, self.right), 0)


Demands = Iterator[Demand]


def equal(left: Expr, right: Expr, what: str) -> Demands:
    """Both sizes are the same; a size and the least of it and others, that it is not larger than those."""
    if isinstance(right, Min) and left in right.args:
        for other in right.args:
            yield from at_most(left, other, what)
    elif left != right:
        yield Demand(Ask.EQUAL, left, right, what)


def at_most(left: Expr, right: Expr, what: str) -> Demands:
    """The first size is not larger than the second."""
    if left != right:
        yield Demand(Ask.AT_MOST, left, right, what)


def multiple(whole: Expr, part: Expr, what: str) -> Demands:
    """The second size divides the first."""
    if whole != part and part != ONE:
        yield Demand(Ask.MULTIPLE, whole, part, what)


def same_shape(left: Shape, right: Shape, what: str) -> Demands:
    """Dim by dim the same; shapes of different rank ask nothing here, for no size can mend that."""
    if len(left) == len(right):
        for axis, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from equal(one, other, f"dim {axis} of {what}")


def alike(left: Shape, right: Shape, what: str) -> Demands:
    """Shapes that broadcast together: dims from the last one on are equal, or one is 1."""
    for back in range(1, min(len(left), len(right)) + 1):
        one, other = left[-back], right[-back]
        if one != other and ONE not in (one, other):
            yield Demand(Ask.ALIKE, one, other, f"dim {-back} of {what}")


def spread(shape: Shape, target: Shape, what: str) -> Demands:
    """A shape that is repeated until it is ``target``: its dims from the last one on are equal to those, or 1."""
    for back in range(1, min(len(shape), len(target)) + 1):
        one, other = shape[-back], target[-back]
        if one not in (other, ONE):
            yield Demand(Ask.REPEATS, one, other, f"dim {-back} of {what}")


def all_alike(shapes: Sequence[Shape], what: str) -> Demands:
    """Each two of the shapes broadcast together."""
    for index, shape in enumerate(shapes):
        for other in shapes[:index]:
            yield from alike(other, shape, what)


def broadcast_shape(shapes: Sequence[Shape]) -> tuple[Expr, ...]:
    """The common shape of shapes that are alike, where no size is 0: the largest size of each dim."""
    rank = max((len(shape) for shape in shapes), default=0)
    joint: list[Expr] = [ONE] * rank
    for shape in shapes:
        for back in range(1, len(shape) + 1):
            mine, other = shape[-back], joint[-back]
            if mine not in (other, ONE):
                joint[-back] = mine if other == ONE else maximum(mine, other)
    return tuple(joint)


def concatenated(shapes: Sequence[Shape], axis: int) -> Demands:
    """Tensors one after the other along ``axis``: all their other dims are the same."""
    first = shapes[0]
    for shape in shapes[1:]:
        for place, (one, other) in enumerate(zip(first, shape, strict=True)):
            if place != axis:
                yield from equal(one, other, f"dim {place}")


def multiplied(left: Shape, right: Shape) -> Demands:
    """A matrix product of two tensors of one dim or more; the dims before their matrices broadcast."""
    rows = right[-2] if len(right) > 1 else right[-1]
    yield from equal(left[-1], rows, SUMMED)
    yield from alike(left[:-2], right[:-2], "the batches")


def attended(query: Shape, key: Shape, value: Shape, mask: Shape | None = None, *, shared: bool = False) -> Demands:
    """Attention of (batch..., heads, queries, d) to keys and values of (batch..., heads, keys, d).

    Args:
        query: Its shape.
        key: Its shape.
        value: Its shape.
        mask: That of a mask which is repeated to (batch..., heads, queries, keys).
        shared: Whether several heads of the query may share one of key and value.
    """
    yield from equal(query[-1], key[-1], SUMMED)
    yield from equal(key[-2], value[-2], "dim -2 of key and value")
    before = 2
    if shared and min(len(query), len(key), len(value)) > 2:
        before = 3
        yield from multiple(query[-3], key[-3], "the heads of query and key")
        yield from multiple(query[-3], value[-3], "the heads of query and value")
    yield from alike(query[:-before], key[:-before], "query and key before their matrices")
    yield from alike(key[:-before], value[:-before], "key and value before their matrices")
    if mask is not None:
        heads = (*key[:-3], query[-3]) if before == 3 else key[:-2]
        scores = (*broadcast_shape((query[:-2], heads)), query[-2], key[-2])
        yield from spread(mask, scores, "the mask and the scores")


def elements(shape: Sequence[Expr | int]) -> Expr:
    """How many elements a shape has."""
    return mul(*shape) if shape else ONE
