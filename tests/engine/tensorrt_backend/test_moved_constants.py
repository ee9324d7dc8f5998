"""Constants whose dims are moved are written as constants, and read as weights."""

from __future__ import annotations

import pytest
import torch
from written import write

from trtdiag.network import DType, NetworkBuilder
from trtdiag.network.layers.convolution import Convolution
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.symbolic import Range, symbol
from trtdiag.targets import TARGETS


@pytest.mark.parametrize("target", [target.version for target in TARGETS])
def test_a_weight_with_more_dims_and_another_order(target: str) -> None:
    builder = NetworkBuilder({"s": Range(1, 8)})
    x = builder.input("x", DType.FLOAT32, [symbol("s"), 3, 5])
    weight = builder.constant(torch.arange(35.0).reshape(7, 5))
    moved = builder.add_single(Shuffle(first=(1, 0), reshape=(1, 5, 7), zero_is_placeholder=False), weight)
    builder.output("y", builder.add_single(MatrixMultiply(MatrixOperation.NONE, MatrixOperation.NONE), x, moved))
    trt, _ = write(builder.build(), target)
    (definition,) = trt.of("INetworkDefinition")
    made = [(name, args) for name, args, _ in definition.calls if name.startswith("add_")]
    assert [name for name, _ in made] == ["add_input", "add_constant", "add_matrix_multiply"]
    assert made[1][1][0] == (1, 5, 7)


@pytest.mark.parametrize("target", [target.version for target in TARGETS])
def test_a_kernel_that_is_moved_is_still_a_weight(target: str) -> None:
    builder = NetworkBuilder({"s": Range(1, 8)})
    x = builder.input("x", DType.FLOAT32, [symbol("s"), 3, 9, 9])
    flat = builder.constant(torch.randn(4, 3 * 2 * 2))
    kernel = builder.add_single(Shuffle(reshape=(4, 3, 2, 2)), flat)
    builder.output("y", builder.add_single(Convolution((1, 1), (0, 0), (0, 0), (1, 1)), x, kernel))
    trt, _ = write(builder.build(), target)
    (definition,) = trt.of("INetworkDefinition")
    assert [name for name, _, _ in definition.calls if name.startswith("add_")] == ["add_input", "add_convolution_nd"]


def test_a_moved_constant_that_is_an_output() -> None:
    builder = NetworkBuilder({"s": Range(1, 8)})
    x = builder.input("x", DType.FLOAT32, [symbol("s")])
    builder.output("x", x)
    builder.output("c", builder.add_single(Shuffle(reshape=(2, 3)), builder.constant(torch.arange(6.0))))
    trt, _ = write(builder.build(), "8.6")
    calls = trt.of("INetworkDefinition")[0].calls
    assert [args[0] for name, args, _ in calls if name == "add_constant"] == [(2, 3)]
    assert len([args[0] for name, args, _ in calls if name == "mark_output"]) == 2
