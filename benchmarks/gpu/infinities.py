"""What becomes of infinities and NaN: small networks, each of an input that has them, beside the reference.

    python benchmarks/gpu/infinities.py

Of each network the places that differ are printed: what came in, what came out, what the reference gives.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.profiles import network_profile
from trtdiag.errors import TrtdiagError
from trtdiag.network import DType, Network, NetworkBuilder, run
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.cast import Cast
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation, Select
from trtdiag.network.layers.reduce import Reduce, ReduceOperation
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.network.layers.unary import Unary, UnaryOperation
from trtdiag.network.value import Value
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target

_INF, _NAN = float("inf"), float("nan")
_E, _U, _A, _R = ElementWiseOperation, UnaryOperation, ActivationType, ReduceOperation


class Net:
    """Layers in few letters; ``x`` is the input, ``big`` the greatest finite number of its dtype."""

    def __init__(self, dtype: DType) -> None:
        self.dtype, self.big = dtype, torch.finfo(dtype.torch).max
        self.builder = NetworkBuilder()
        row = [-_INF, _INF, _NAN, 0.0, -0.0, 1.0, -1.5, self.big, -self.big, torch.finfo(dtype.torch).tiny / 4, 2.5]
        self.given = torch.tensor([row, [-_INF] * 11, [_INF, *[1.0] * 10], [-_INF] * 10 + [0.5]], dtype=dtype.torch)
        self.x = self.builder.input("x", dtype, tuple(self.given.shape))

    def number(self, value: float, whole: bool = False) -> Value:
        shape = tuple(self.given.shape) if whole else (1, 1)
        return self.builder.constant(torch.full(shape, value, dtype=self.dtype.torch))

    def two(self, op: ElementWiseOperation, a: Value, b: Value) -> Value:
        return self.builder.add_single(ElementWise(op), a, b)

    def one(self, op: UnaryOperation, a: Value) -> Value:
        return self.builder.add_single(Unary(op), a)

    def act(self, op: ActivationType, *numbers: float) -> Value:
        return self.builder.add_single(Activation(op, *numbers), self.x)

    def select(self, where: Value, a: Value, b: Value) -> Value:
        return self.builder.add_single(Select(), where, a, b)

    def cast(self, to: DType, a: Value) -> Value:
        return self.builder.add_single(Cast(to), a)

    def top(self, a: Value) -> Value:
        return self.builder.add_single(Reduce(_R.MAX, (1,), True), a)

    def is_nan(self, x: Value) -> Value:
        return self.one(_U.NOT, self.two(_E.EQUAL, x, x))

    def above(self, x: Value) -> Value:
        """Whether it is more than every finite number."""
        return self.two(_E.GREATER, x, self.number(self.big))

    def below(self, x: Value) -> Value:
        return self.two(_E.LESS, x, self.number(-self.big))

    def positive(self) -> Value:
        return self.two(_E.GREATER, self.x, self.number(0.5))

    def made(self, mask: Value, sign: float) -> Value:
        """An infinity that no constant holds: the logarithm of 0, where the mask is."""
        off = self.cast(self.dtype, self.one(_U.NOT, mask))
        infinite = self.one(_U.LOG, off)
        return infinite if sign < 0 else self.one(_U.NEG, infinite)

    def soft(self, a: Value) -> Value:
        return self.builder.add_single(SoftMax(1), a)


def _unlike(n: Net) -> Value:
    x = n.x
    sides = n.two(_E.OR, n.two(_E.LESS, x, n.number(0.0)), n.two(_E.GREATER, x, n.number(-1.0)))
    return n.one(_U.NOT, sides)


def _nan_kept(n: Net, y: Value) -> Value:
    return n.select(n.is_nan(n.x), n.x, y)


WAYS: dict[str, Callable[[Net], Value]] = {
    "x as it is (abs of neg)": lambda n: n.one(_U.NEG, n.one(_U.NEG, n.x)),
    "constant -inf times 1 input": lambda n: n.two(
        _E.PROD, n.number(-_INF, True), n.two(_E.SUM, n.cast(n.dtype, n.two(_E.EQUAL, n.x, n.x)), n.number(1.0))
    ),
    "x + constant -inf": lambda n: n.two(_E.SUM, n.x, n.number(-_INF)),
    "x + whole constant -inf": lambda n: n.two(_E.SUM, n.x, n.number(-_INF, True)),
    "select mask, constant -inf": lambda n: n.select(n.positive(), n.number(-_INF), n.x),
    "select mask, whole constant -inf": lambda n: n.select(n.positive(), n.number(-_INF, True), n.x),
    "select mask, x, constant -inf": lambda n: n.select(n.positive(), n.x, n.number(-_INF)),
    "select mask, constant nan": lambda n: n.select(n.positive(), n.number(_NAN), n.x),
    "select mask, log 0": lambda n: n.select(n.positive(), n.made(n.positive(), -1.0), n.x),
    "select mask, neg log 0": lambda n: n.select(n.positive(), n.made(n.positive(), 1.0), n.x),
    "select mask, recip 0": lambda n: n.select(
        n.positive(), n.one(_U.RECIP, n.cast(n.dtype, n.one(_U.NOT, n.positive()))), n.x
    ),
    "x == constant inf": lambda n: n.two(_E.EQUAL, n.x, n.number(_INF)),
    "x == constant -inf": lambda n: n.two(_E.EQUAL, n.x, n.number(-_INF)),
    "x == whole constant -inf": lambda n: n.two(_E.EQUAL, n.x, n.number(-_INF, True)),
    "x > big": lambda n: n.above(n.x),
    "x < -big": lambda n: n.below(n.x),
    "isinf": lambda n: n.one(_U.ISINF, n.x),
    "isinf and x > 0": lambda n: n.two(_E.AND, n.one(_U.ISINF, n.x), n.two(_E.GREATER, n.x, n.number(0.0))),
    "not x == x": lambda n: n.is_nan(n.x),
    "not (x < 0 or x > -1)": _unlike,
    "relu": lambda n: n.act(_A.RELU),
    "clip": lambda n: n.act(_A.CLIP, -1.0, 6.0),
    "hard sigmoid": lambda n: n.act(_A.HARD_SIGMOID, 1 / 6, 0.5),
    "max(x, 0)": lambda n: n.two(_E.MAX, n.x, n.number(0.0)),
    "min(x, 0)": lambda n: n.two(_E.MIN, n.x, n.number(0.0)),
    "select nan, x, relu": lambda n: _nan_kept(n, n.act(_A.RELU)),
    "select x > 0, x, 0": lambda n: n.select(n.two(_E.GREATER, n.x, n.number(0.0)), n.x, n.number(0.0)),
    "select x < 0, 0, x": lambda n: n.select(n.two(_E.LESS, n.x, n.number(0.0)), n.number(0.0), n.x),
    "sign": lambda n: n.one(_U.SIGN, n.x),
    "(x > 0) - (x < 0)": lambda n: n.two(
        _E.SUB,
        n.cast(n.dtype, n.two(_E.GREATER, n.x, n.number(0.0))),
        n.cast(n.dtype, n.two(_E.LESS, n.x, n.number(0.0))),
    ),
    "greatest of rows": lambda n: n.top(n.x),
    "greatest == constant -inf": lambda n: n.two(_E.EQUAL, n.top(n.x), n.number(-_INF)),
    "greatest < -big": lambda n: n.below(n.top(n.x)),
    "softmax": lambda n: n.soft(n.x),
    "softmax, 0 where greatest == -inf": lambda n: n.select(
        n.two(_E.EQUAL, n.top(n.x), n.number(-_INF)), n.number(0.0), n.soft(n.x)
    ),
    "softmax, 0 where greatest < -big": lambda n: n.select(n.below(n.top(n.x)), n.number(0.0), n.soft(n.x)),
    "softmax of select constant -inf": lambda n: n.soft(n.select(n.positive(), n.number(-_INF), n.x)),
    "softmax of select log 0": lambda n: n.soft(n.select(n.positive(), n.made(n.positive(), -1.0), n.x)),
    "log": lambda n: n.one(_U.LOG, n.x),
    "exp": lambda n: n.one(_U.EXP, n.x),
    "sqrt": lambda n: n.one(_U.SQRT, n.x),
    "atan": lambda n: n.one(_U.ATAN, n.x),
    "sin": lambda n: n.one(_U.SIN, n.x),
    "recip": lambda n: n.one(_U.RECIP, n.x),
    "x / x": lambda n: n.two(_E.DIV, n.x, n.x),
    "x * 0": lambda n: n.two(_E.PROD, n.x, n.number(0.0)),
    "pow 0.5": lambda n: n.two(_E.POW, n.x, n.number(0.5)),
    "pow 2": lambda n: n.two(_E.POW, n.x, n.number(2.0)),
    "pow -1": lambda n: n.two(_E.POW, n.x, n.number(-1.0)),
    "pow 0": lambda n: n.two(_E.POW, n.x, n.number(0.0)),
    "2 to the x": lambda n: n.two(_E.POW, n.number(2.0), n.x),
    "1 to the x": lambda n: n.two(_E.POW, n.number(1.0), n.x),
    "0 to the x": lambda n: n.two(_E.POW, n.number(0.0), n.x),
    "-2 to the x": lambda n: n.two(_E.POW, n.number(-2.0), n.x),
}


def network_of(way: str, dtype: DType) -> tuple[Network, torch.Tensor]:
    """The network, and what it is given."""
    net = Net(dtype)
    net.builder.output("y", WAYS[way](net))
    return net.builder.build(), net.given


def differing(given: torch.Tensor, found: torch.Tensor, wanted: torch.Tensor) -> list[str]:
    """The places that are not the same, in words."""
    close = torch.isclose(found.double(), wanted.double(), rtol=1e-3, atol=1e-3, equal_nan=True)
    seen: dict[str, None] = {}
    for place in (~close).nonzero().tolist():
        row = tuple(min(index, size - 1) for index, size in zip(place, given.shape, strict=True))
        seen[f"{given[row].item():.4g}: {found[tuple(place)].item():.6g}, not {wanted[tuple(place)].item():.6g}"] = None
    return list(seen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--target", default=get_target(None).version)
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(WAYS))
    parser.add_argument("--precisions", nargs="+", default=["float32", "float16"])
    asked = parser.parse_args()
    options = CompileOptions(asked.target, asked.backend, optimization_level=asked.level)
    backend = get_backend(asked.backend)
    for precision in asked.precisions:
        for way in asked.only:
            network, given = network_of(way, DType(precision))
            try:
                engine = build_engine(
                    backend, network, network_profile(network, {}), options, get_target(options.target)
                )
                (found,) = backend.load(memoryview(engine.blob), engine.manifest)([given.to(backend.device)])
            except TrtdiagError as error:
                print(f"{precision} {way:36} {' '.join(str(error).split())[:300]}", flush=True)
                continue
            (wanted,) = run(network, [given])
            said = "; ".join(differing(given, found.cpu(), wanted)) or "the same"
            print(f"{precision} {way:36} {said}", flush=True)


if __name__ == "__main__":
    main()
