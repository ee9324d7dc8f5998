"""Networks and sizes that TensorRT must refuse, each with the op and line that the message should name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from trtdiag.engine.backend import Profile
from trtdiag.graph.source import Frame
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.convolution import Convolution
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation
from trtdiag.network.layers.reduce import Reduce, ReduceOperation, TopK, TopKOperation
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, symbol

GIB = 2**30
NONE = CompileOptions(backend="tensorrt", optimization_level=1)
NO_WORKSPACE = CompileOptions(backend="tensorrt", optimization_level=1, workspace_mib=0)


@dataclass(frozen=True)
class Refusal:
    """What is asked of TensorRT, and what the message must tell.

    Attributes:
        network: Makes the network.
        profile: The sizes to build for.
        options: How to build.
        names: What the message names: op and line.
        free_bytes: What of the GPU's memory is left before it is built; ``None``: all that is free.
        free_to_run_bytes: What is left before it is loaded and run.
        note: What is wrong with it.
    """

    network: Callable[[], Network]
    profile: Profile
    note: str
    options: CompileOptions = NONE
    names: str = ""
    free_bytes: int | None = None
    free_to_run_bytes: int | None = None
    # The one input that the engine is run with, where it can be built.
    run_with: tuple[int, ...] = field(default=())


def _dims(*sizes: int | tuple[int, int, int]) -> tuple[DimProfile, ...]:
    return tuple(DimProfile(*((size,) * 3 if isinstance(size, int) else size)) for size in sizes)


def _builder(ranges: Mapping[str, tuple[int, int]] | None = None) -> NetworkBuilder:
    return NetworkBuilder({name: Range(*ends) for name, ends in (ranges or {}).items()})


def topk(k: int, rows: int = 8, columns: int = 5000) -> Network:
    """The greatest ``k`` of each of up to ``rows`` rows."""
    builder = _builder({"s": (1, rows)})
    with builder.at(Origin("aten.topk.default", "topk", Frame("model.py", 7))):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), columns])
        for name, value in zip(("values", "indices"), builder.add(TopK(TopKOperation.MAX, k, 1), x), strict=True):
            builder.output(name, value)
    return builder.build()


def rank(dims: int) -> Network:
    """A pointwise op on a tensor of so many dims."""
    builder = _builder({"s": (1, 8)})
    with builder.at(Origin("aten.tanh.default", "tanh", Frame("model.py", 11))):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), *[2] * (dims - 1)])
        builder.output("y", builder.add_single(Activation(ActivationType.TANH), x))
    return builder.build()


def convolution(channels: int, kernel: int, size: tuple[int, int], *, spatial: int = 2) -> Network:
    """A convolution without padding over a dynamic height: below the kernel's there is no output."""
    builder = _builder({"h": size})
    torch.manual_seed(0)
    with builder.at(Origin("aten.convolution.default", "conv2d", Frame("model.py", 21))):
        x = builder.input("x", DType.FLOAT32, [1, channels, symbol("h"), *[64] * (spatial - 1)])
        weight = builder.constant(torch.randn(channels, channels, *[kernel] * spatial))
        ones, zeros = (1,) * spatial, (0,) * spatial
        builder.output("y", builder.add_single(Convolution(ones, zeros, zeros, ones), x, weight))
    return builder.build()


def two_of_one_size() -> Network:
    """A sum of two inputs of the same dynamic size."""
    builder = _builder({"s": (1, 64)})
    with builder.at(Origin("aten.add.Tensor", "add", Frame("model.py", 31))):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), 3])
        y = builder.input("y", DType.FLOAT32, [symbol("s"), 3])
        builder.output("z", builder.add_single(ElementWise(ElementWiseOperation.SUM), x, y))
    return builder.build()


def wide_rows(columns: int) -> Network:
    """A softmax over rows of so many columns."""
    builder = _builder({"s": (1, 2**31 - 1)})
    with builder.at(Origin("aten._softmax.default", "softmax", Frame("model.py", 41))):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), columns])
        builder.output("y", builder.add_single(SoftMax(1), x))
    return builder.build()


def long_sum(columns: int) -> Network:
    """The sum of a very long row."""
    builder = _builder({"s": (1, 4)})
    with builder.at(Origin("aten.sum.dim_IntList", "total", Frame("model.py", 51))):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), columns])
        builder.output("y", builder.add_single(Reduce(ReduceOperation.SUM, (1,)), x))
    return builder.build()


def long_product(inner: int) -> Network:
    """A product of matrices that share a very long dim."""
    builder = _builder({"s": (1, 16)})
    with builder.at(Origin("aten.mm.default", "mm", Frame("model.py", 61))):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), inner])
        y = builder.input("y", DType.FLOAT32, [inner, 16])
        builder.output("z", builder.add_single(MatrixMultiply(MatrixOperation.NONE, MatrixOperation.NONE), x, y))
    return builder.build()


def squares(count: int, side: int) -> Network:
    """So many different matrices of up to ``side`` by ``side``, all alive until the last is made."""
    builder = _builder({"s": (1, side)})
    torch.manual_seed(0)
    with builder.at(Origin("aten.bmm.default", "scores", Frame("model.py", 71))):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), 4])
        made = []
        for _ in range(count):
            y = builder.add_single(MatrixMultiply(), x, builder.constant(torch.randn(4, 4)))
            scores = builder.add_single(MatrixMultiply(MatrixOperation.NONE, MatrixOperation.TRANSPOSE), y, x)
            made.append(builder.add_single(SoftMax(1), scores))
        total = made[-1]
        for one in reversed(made[:-1]):  # a product is no pointwise op: it cannot be computed piece by piece
            total = builder.add_single(MatrixMultiply(), one, total)
        builder.output("y", builder.add_single(MatrixMultiply(), total, x))
    return builder.build()


_ROWS = {"x": _dims((1, 3, 8), 5000)}
REFUSALS: dict[str, Refusal] = {
    "layer-topk": Refusal(
        lambda: topk(4000), _ROWS, "TopK takes k up to 3840", names="aten.topk.default (topk) at model.py:7"
    ),
    "layer-rank": Refusal(
        lambda: rank(9), {"x": _dims((1, 2, 8), *[2] * 8)}, "TensorRT's tensors have up to 8 dims", names="x"
    ),
    "profile-disagrees": Refusal(
        two_of_one_size,
        {"x": _dims((1, 3, 64), 3), "y": _dims((2, 5, 60), 3)},
        "two inputs of one size, and other ends for each",
    ),
    "profile-below-kernel": Refusal(
        lambda: convolution(4, 7, (3, 64)),
        {"x": _dims(1, 4, (3, 16, 64), 64)},
        "the least height is below the kernel's",
        names="aten.convolution.default (conv2d) at model.py:21",
    ),
    "profile-turned": Refusal(two_of_one_size, {"x": _dims((8, 4, 6), 3), "y": _dims((8, 4, 6), 3)}, "min above max"),
    "volume-profile": Refusal(
        lambda: wide_rows(50_000), {"x": _dims((1, 3, 2**31 - 1), 50_000)}, "more than 2^31 elements at the maximum"
    ),
    "run-outside": Refusal(
        lambda: topk(3), _ROWS, "a ninth row where the engine was built for eight", run_with=(9, 5000)
    ),
    "workspace-topk": Refusal(
        lambda: topk(1000, 4096, 5000), {"x": _dims((1, 4096, 4096), 5000)}, "no workspace", NO_WORKSPACE, "topk"
    ),
    "workspace-sum": Refusal(
        lambda: long_sum(2**24), {"x": _dims((1, 1, 4), 2**24)}, "no workspace", NO_WORKSPACE, "total"
    ),
    "workspace-mm": Refusal(
        lambda: long_product(2**20),
        {"x": _dims((1, 16, 16), 2**20), "y": _dims(2**20, 16)},
        "no workspace",
        NO_WORKSPACE,
        "mm",
    ),
    "workspace-softmax": Refusal(
        lambda: wide_rows(2**22), {"x": _dims((1, 3, 64), 2**22)}, "no workspace", NO_WORKSPACE, "softmax"
    ),
    "workspace-conv3d": Refusal(
        lambda: convolution(64, 5, (16, 64), spatial=3),
        {"x": _dims(1, 64, (16, 64, 64), 64, 64)},
        "no workspace",
        NO_WORKSPACE,
        "conv2d",
    ),
    "memory-builder": Refusal(lambda: topk(3), _ROWS, "hardly any GPU memory is free", free_bytes=4 * 2**20),
    "memory-build": Refusal(
        lambda: wide_rows(2**22),
        {"x": _dims((1, 256, 256), 2**22)},
        "timing needs 8 GiB, and 2 GiB are free",
        names="softmax",
        free_bytes=2 * GIB,
    ),
    "memory-context": Refusal(
        lambda: squares(3, 20_000),
        {"x": _dims((1, 64, 20_000), 4)},
        "the engine needs several GiB to run, and 1 GiB is free",
        free_to_run_bytes=GIB,
        run_with=(64, 4),
    ),
    "memory-network": Refusal(
        lambda: squares(24, 46_000),
        {"x": _dims((1, 64, 46_000), 4)},
        "24 matrices of 8 GiB each at the maximum",
        run_with=(64, 4),
    ),
}
