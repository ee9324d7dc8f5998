"""Networks in which the data decide a size, with what PyTorch gives for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from network_cases import ORIGIN

from trtdiag.network import DType, Network, NetworkBuilder, Value
from trtdiag.network.layer import INPUT
from trtdiag.network.layers.cast import Cast
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.gather import Gather, GatherMode
from trtdiag.network.layers.matmul import MatrixMultiply
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.network.layers.reduce import Reduce, ReduceOperation
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.squeeze import Shape
from trtdiag.symbolic import Num, Range, mul, symbol

ROWS, COLUMNS = 31, 7
S, N = symbol("s"), symbol("n")
Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Counting:
    """``write`` gives the outputs for x (s, 7) and a bool mask (s,) of a network; ``expected`` those of PyTorch."""

    write: Callable[[NetworkBuilder, Value, Value], tuple[Value, ...]]
    expected: Callable[[torch.Tensor, torch.Tensor], Tensors]
    most: int = ROWS

    def network(self) -> Network:
        ranges = {"s": Range(1, ROWS), "n": Range(0, self.most), "m": Range(0, ROWS)}
        builder = NetworkBuilder(ranges)
        x = builder.input("x", DType.FLOAT32, (S, COLUMNS))
        mask = builder.input("mask", DType.BOOL, (S,))
        with builder.at(ORIGIN):
            for index, made in enumerate(self.write(builder, x, mask)):
                builder.output(f"y{index}", made)
        return builder.build()


def _places(b: NetworkBuilder, mask: Value, count: str = "n") -> Value:
    return b.add_single(Shuffle(reshape=(-1,)), b.add_single(NonZero(count), mask))


def _rows(b: NetworkBuilder, x: Value, mask: Value) -> Value:
    return b.add_single(Gather(axis=0), x, _places(b, mask))


def _indices(b: NetworkBuilder, x: Value, mask: Value) -> tuple[Value, ...]:
    return b.add(NonZero("n"), mask)


def _computed(b: NetworkBuilder, x: Value, mask: Value) -> tuple[Value, ...]:
    rows = _rows(b, x, mask)
    double = b.add_single(ElementWise(ElementWiseOperation.SUM), rows, rows)
    weight = b.constant(torch.arange(21.0).reshape(7, 3) / 7)
    return double, b.add_single(MatrixMultiply(), double, weight)


def _summed(b: NetworkBuilder, x: Value, mask: Value) -> tuple[Value, ...]:
    return b.add(Reduce(ReduceOperation.SUM, (0,)), _rows(b, x, mask))


def _one_more(b: NetworkBuilder, x: Value, mask: Value) -> tuple[Value, ...]:
    token = b.constant(torch.ones(1, COLUMNS))
    return b.add(Concatenation(0), token, _rows(b, x, mask))


def _counted(b: NetworkBuilder, x: Value, mask: Value) -> tuple[Value, ...]:
    sizes = b.add_single(Shape(DType.INT32), _rows(b, x, mask))
    return (b.add_single(Cast(DType.FLOAT32), sizes),)


def _padded(b: NetworkBuilder, x: Value, mask: Value) -> tuple[Value, ...]:
    fill = b.constant(torch.tensor(-1.0))
    return b.add(Slice((0, 0), (ROWS, COLUMNS), (1, 1), SampleMode.FILL), _rows(b, x, mask), fill)


def _flat(b: NetworkBuilder, x: Value, mask: Value) -> tuple[Value, ...]:
    rows = _rows(b, x, mask)
    sizes = b.add_single(Shape(DType.INT32), rows)
    turned = b.add_single(Gather(axis=0), sizes, b.constant(torch.tensor([1, 0], dtype=torch.int32)))
    return b.add(Shuffle(reshape=INPUT, zero_is_placeholder=False), rows, turned)


def _elements(b: NetworkBuilder, x: Value, mask: Value) -> tuple[Value, ...]:
    above = b.add_single(ElementWise(ElementWiseOperation.GREATER), x, b.constant(torch.zeros(1, 1)))
    places = b.add_single(Shuffle(first=(1, 0)), b.add_single(NonZero("n"), above))
    return places, b.add_single(Gather(GatherMode.ND), x, places)


def _twice(b: NetworkBuilder, x: Value, mask: Value) -> tuple[Value, ...]:
    """Rows by a mask, then those of them whose first element is positive."""
    rows = _rows(b, x, mask)
    first = b.add_single(Gather(axis=1), rows, b.constant(torch.tensor(0, dtype=torch.int32)))
    zero = b.constant(torch.zeros(1))
    positive = b.add_single(ElementWise(ElementWiseOperation.GREATER), first, zero)
    return rows, b.add_single(Gather(axis=0), rows, _places(b, positive, "m"))


def _above(x: torch.Tensor) -> Tensors:
    return (x > 0).nonzero().int(), x[x > 0]


def _filled(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows, torch.full((ROWS - len(rows), COLUMNS), -1.0)])


NETWORKS = {
    "indices": Counting(_indices, lambda x, m: (m.nonzero().t().int(),)),
    "rows": Counting(lambda b, x, m: (_rows(b, x, m),), lambda x, m: (x[m],)),
    "computed": Counting(_computed, lambda x, m: (2 * x[m], 2 * x[m] @ (torch.arange(21.0).reshape(7, 3) / 7))),
    "summed": Counting(_summed, lambda x, m: (x[m].sum(0),)),
    "one more": Counting(_one_more, lambda x, m: (torch.cat([torch.ones(1, COLUMNS), x[m]]),)),
    "counted": Counting(_counted, lambda x, m: (torch.tensor([float(m.sum()), float(COLUMNS)]),)),
    "padded": Counting(_padded, lambda x, m: (_filled(x[m]),)),
    "turned sizes": Counting(_flat, lambda x, m: (x[m].reshape(COLUMNS, int(m.sum())),)),
    "elements": Counting(_elements, lambda x, m: _above(x), most=ROWS * COLUMNS),
    "twice": Counting(_twice, lambda x, m: (x[m], x[m][x[m][:, 0] > 0])),
}
MOST = {"indices": S, "elements": mul(S, Num(COLUMNS))}


def inputs(rows: int, which: str, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """x and a mask that holds nowhere, everywhere, once, or at about half of the rows."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, COLUMNS, generator=generator)
    mask = {
        "none": torch.zeros(rows),
        "all": torch.ones(rows),
        "one": torch.arange(rows) == rows // 2,
        "half": torch.rand(rows, generator=generator) < 0.5,
    }[which]
    if which in ("none", "all"):  # what is chosen by x's own values too
        x = x.abs() * (1 if which == "all" else -1)
    return x, mask.bool()
