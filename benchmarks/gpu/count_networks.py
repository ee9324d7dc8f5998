"""Networks around a size that the data decides: ways to choose rows, and what may follow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "network"))

import torch
from counting_networks import COLUMNS, ROWS, S

from trtdiag.network import DType, NetworkBuilder, Origin, Value
from trtdiag.network.layer import INPUT
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation, Select
from trtdiag.network.layers.gather import Gather, GatherMode
from trtdiag.network.layers.matmul import MatrixMultiply
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.reduce import Reduce, ReduceOperation
from trtdiag.network.layers.scatter import Scatter, ScatterMode
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.network.layers.squeeze import Shape
from trtdiag.network.layers.unary import Unary, UnaryOperation
from trtdiag.symbolic import Range

E = ElementWiseOperation
B = NetworkBuilder


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def found(b: B, mask: Value, count: str = "n") -> Value:
    return b.add_single(NonZero(count), mask)


# (rows, columns) of the places, as what gathers reads.
def standing(b: B, mask: Value) -> Value:
    return b.add_single(Shuffle(first=(1, 0)), found(b, mask))


def by_nd(b: B, x: Value, mask: Value) -> Value:
    return b.add_single(Gather(GatherMode.ND), x, standing(b, mask))


def by_pick(b: B, x: Value, mask: Value) -> Value:
    index = b.constant(torch.tensor(0, dtype=torch.int32))
    return b.add_single(Gather(axis=0), x, b.add_single(Gather(axis=0), found(b, mask), index))


def by_sum(b: B, x: Value, mask: Value) -> Value:
    return b.add_single(Gather(axis=0), x, b.add_single(Reduce(ReduceOperation.SUM, (0,)), found(b, mask)))


def by_max(b: B, x: Value, mask: Value) -> Value:
    return b.add_single(Gather(axis=0), x, b.add_single(Reduce(ReduceOperation.MAX, (0,)), found(b, mask)))


def by_reshape(b: B, x: Value, mask: Value) -> Value:
    return b.add_single(Gather(axis=0), x, b.add_single(Shuffle(reshape=(-1,)), found(b, mask)))


def by_standing_reshape(b: B, x: Value, mask: Value) -> Value:
    return b.add_single(Gather(axis=0), x, b.add_single(Shuffle(reshape=(-1,)), standing(b, mask)))


def by_identity(b: B, x: Value, mask: Value) -> Value:
    flat = b.add_single(Shuffle(reshape=(-1,)), b.add_single(Identity(), found(b, mask)))
    return b.add_single(Gather(axis=0), x, flat)


def by_whole(b: B, x: Value, mask: Value) -> Value:
    rows = b.add_single(Gather(axis=0), x, found(b, mask))
    return b.add_single(Reduce(ReduceOperation.SUM, (0,)), rows)


def by_nd_plain(b: B, x: Value, mask: Value) -> Value:
    """Places of two dims, as in ``x[mask]`` of every element; one of each row."""
    wide = b.add_single(Shuffle(reshape=(0, 1)), mask)
    places = b.add_single(Shuffle(first=(1, 0)), found(b, wide))
    first = b.add_single(Gather(axis=1), places, b.constant(ints(0)))
    return b.add_single(Gather(GatherMode.ND), x, first)


WAYS: dict[str, Callable[[B, Value, Value], Value]] = {
    "nd": by_nd,
    "pick": by_pick,
    "sum": by_sum,
    "max": by_max,
    "reshape": by_reshape,
    "standing reshape": by_standing_reshape,
    "identity reshape": by_identity,
    "whole": by_whole,
    "two dims": by_nd_plain,
}


def weight() -> torch.Tensor:
    return torch.arange(21.0).reshape(COLUMNS, 3) / 7


def sizes(b: B, rows: Value) -> Value:
    return b.add_single(Shape(DType.INT32), rows)


def counted_slice(b: B, x: Value, rows: Value) -> Value:
    start = b.constant(ints(0, 0))
    return b.add_single(Slice(INPUT, INPUT, (1, 1)), x, start, sizes(b, rows))


def turned(b: B, x: Value, rows: Value) -> Value:
    other = b.add_single(Gather(axis=0), sizes(b, rows), b.constant(ints(1, 0)))
    return b.add_single(Shuffle(reshape=INPUT, zero_is_placeholder=False), rows, other)


def pairs(b: B, x: Value, rows: Value) -> Value:
    one = b.add_single(Shuffle(reshape=(0, 0, 1), second=(0, 2, 1)), rows)
    other = b.add_single(Shuffle(reshape=(0, 0, 1), second=(2, 0, 1)), rows)
    return b.add_single(Reduce(ReduceOperation.SUM, (2,)), b.add_single(ElementWise(E.SUB), one, other))


def chosen_again(b: B, x: Value, rows: Value) -> Value:
    first = b.add_single(Gather(axis=1), rows, b.constant(torch.tensor(0, dtype=torch.int32)))
    positive = b.add_single(ElementWise(E.GREATER), first, b.constant(torch.zeros(1)))
    places = b.add_single(Shuffle(first=(1, 0)), b.add_single(NonZero("m"), positive))
    return b.add_single(Gather(GatherMode.ND), rows, places)


def normal(b: B, x: Value, rows: Value) -> Value:
    scale, bias = b.constant(torch.ones(1, COLUMNS)), b.constant(torch.zeros(1, COLUMNS))
    return b.add_single(Normalization((1,), 1e-5), rows, scale, bias)


def chosen(b: B, x: Value, rows: Value) -> Value:
    above = b.add_single(ElementWise(E.GREATER), rows, b.constant(torch.zeros(1, 1)))
    return b.add_single(Select(), above, rows, b.constant(torch.full((1, 1), -2.0)))


def half(b: B, x: Value, rows: Value) -> Value:
    return b.add_single(Cast(DType.FLOAT32), b.add_single(Cast(DType.FLOAT16), rows))


def single(layer: Any, *more: torch.Tensor) -> Callable[[B, Value, Value], Value]:
    return lambda b, x, rows: b.add_single(layer, rows, *map(b.constant, more))


TAILS: dict[str, Callable[[B, Value, Value], Value]] = {
    "nothing": lambda b, x, rows: rows,
    "double": lambda b, x, rows: b.add_single(ElementWise(E.SUM), rows, rows),
    "add": lambda b, x, rows: b.add_single(ElementWise(E.SUM), rows, b.constant(torch.ones(1, COLUMNS))),
    "relu": single(Activation(ActivationType.RELU)),
    "exp": single(Unary(UnaryOperation.EXP)),
    "matmul": single(MatrixMultiply(), weight()),
    "sum of rows": single(Reduce(ReduceOperation.SUM, (0,))),
    "greatest column": single(Reduce(ReduceOperation.MAX, (1,))),
    "softmax": single(SoftMax(1)),
    "layer norm": normal,
    "select": chosen,
    "half": half,
    "transposed": single(Shuffle(first=(1, 0))),
    "new dim": single(Shuffle(reshape=(0, 0, 1))),
    "flat": single(Shuffle(reshape=(-1,))),
    "column": lambda b, x, rows: b.add_single(Gather(axis=1), rows, b.constant(ints(2))),
    "concat": lambda b, x, rows: b.add_single(Concatenation(0), b.constant(torch.ones(1, COLUMNS)), rows),
    "concat columns": lambda b, x, rows: b.add_single(Concatenation(1), rows, rows),
    "filled": single(Slice((0, 0), (ROWS, COLUMNS), (1, 1), SampleMode.FILL), torch.tensor(-1.0)),
    "sizes": lambda b, x, rows: b.add_single(Cast(DType.FLOAT32), sizes(b, rows)),
    "sliced by sizes": counted_slice,
    "turned sizes": turned,
    "pairs": pairs,
    "chosen again": chosen_again,
}


def put_back(b: B, x: Value, mask: Value) -> Value:
    """What a mixture of experts does: rows computed, and put to their places."""
    places = standing(b, mask)
    rows = b.add_single(Gather(GatherMode.ND), x, places)
    new = b.add_single(ElementWise(E.SUM), rows, rows)
    return b.add_single(Scatter(ScatterMode.ND), x, places, new)


ENDS: dict[str, Callable[[B, Value, Value], Value]] = {
    "places": lambda b, x, mask: found(b, mask),
    "places, identity": lambda b, x, mask: b.add_single(Identity(), found(b, mask)),
    "places, standing": lambda b, x, mask: standing(b, mask),
    "places, added": lambda b, x, mask: b.add_single(
        ElementWise(E.SUM), found(b, mask), b.constant(ints(0).reshape(1, 1))
    ),
    "places, float": lambda b, x, mask: b.add_single(Cast(DType.FLOAT32), found(b, mask)),
    "put back": put_back,
}
MASKS = ("given", "computed", "not not")


def masked(b: B, x: Value, mask: Value, how: str) -> Value:
    """The same mask as an input, out of a comparison, or turned round twice."""
    if how == "computed":
        number = b.add_single(Cast(DType.FLOAT32), mask)
        return b.add_single(ElementWise(E.GREATER), number, b.constant(torch.full((1,), 0.5)))
    for _ in range(2 if how == "not not" else 0):
        mask = b.add_single(Unary(UnaryOperation.NOT), mask)
    return mask


def cases() -> Iterator[str]:
    """Every way alone with each mask, then the places themselves, then each thing behind the ways that may be taken."""
    yield from (f"{way} / nothing / {mask}" for mask in MASKS for way in WAYS)
    yield from (f"- / {end} / {mask}" for end in ENDS for mask in ("given", "computed"))
    for way in ("nd", "pick", "whole"):
        yield from (f"{way} / {tail} / computed" for tail in TAILS if tail != "nothing")
    yield from (f"{way} / {tail} / given / old shapes" for way in ("nd", "reshape") for tail in TAILS)
    yield from (f"nd / {tail} / computed / level 3" for tail in TAILS)
    yield from (f"- / {end} / given / old shapes" for end in ENDS)


def network(name: str) -> Any:
    """The network of a case."""
    way, tail, how = name.split(" / ")[:3]
    b = NetworkBuilder({"s": Range(1, ROWS), "n": Range(0, ROWS), "m": Range(0, ROWS)})
    x, mask = b.input("x", DType.FLOAT32, (S, COLUMNS)), b.input("mask", DType.BOOL, (S,))
    with b.at(Origin("aten.index.Tensor", "index")):
        own = masked(b, x, mask, how)
        made = ENDS[tail](b, x, own) if way == "-" else TAILS[tail](b, x, WAYS[way](b, x, own))
    b.output("y", made)
    return b.build()
