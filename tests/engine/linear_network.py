"""The network of ``Linear(5, 7)`` with a dynamic batch, written by hand."""

from __future__ import annotations

import torch

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import Engine, build_engine
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, parse_condition, symbol
from trtdiag.targets import get_target

PROFILE = {"x": (DimProfile(1, 3, 8), DimProfile(5, 5, 5))}


def linear() -> torch.nn.Linear:
    torch.manual_seed(3)
    return torch.nn.Linear(5, 7).requires_grad_(False)


def linear_network(model: torch.nn.Linear, *, given: tuple[str, ...] = ()) -> Network:
    builder = NetworkBuilder({"s0": Range(1, 8)}, [parse_condition(text) for text in given])
    with builder.at(Origin("aten.linear.default", "linear")):
        x = builder.input("x", DType.FLOAT32, [symbol("s0"), 5])
        y = builder.add_single(
            MatrixMultiply(MatrixOperation.NONE, MatrixOperation.TRANSPOSE), x, builder.constant(model.weight)
        )
        y = builder.add_single(ElementWise(ElementWiseOperation.SUM), y, builder.constant(model.bias.reshape(1, 7)))
    builder.output("linear", y)
    return builder.build()


def linear_engine(model: torch.nn.Linear, *, given: tuple[str, ...] = ()) -> Engine:
    network = linear_network(model, given=given)
    return build_engine(get_backend("reference"), network, PROFILE, CompileOptions(), get_target("11.4"))


def as_buffer(blob: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(blob), dtype=torch.uint8)
