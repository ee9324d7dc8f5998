"""Ops of every family as engines, beside PyTorch; on TensorRT where there is a GPU, and always on the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.convert import op_check
from tests.convert.on_backend import Beside
from tests.convert.op_check import check_op
from tests.harness.rows import thinned
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target, installed_version

aten = torch.ops.aten
X, IMAGE = torch.linspace(-3, 3, 15).reshape(3, 5), torch.linspace(-2, 2, 2 * 4 * 7 * 5).reshape(2, 4, 7, 5)
WHOLE = torch.tensor([[5, -7, 0, 3, 3], [2, 2, -9, 8, 1]])
KERNEL = torch.linspace(-1, 1, 6 * 4 * 9).reshape(6, 4, 3, 3)
INDEX = torch.tensor([[0, 2, 1, 0, 2], [1, 1, 0, 2, 0]])

CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "add": (aten.add.Tensor, (X, X[0])),
    "half": (aten.mul.Tensor, (X.half(), X.half())),
    "remainder": (aten.remainder.Scalar, (WHOLE, 3)),
    "negative": (aten.neg.default, (WHOLE,)),
    "flipped_bits": (aten.bitwise_not.default, (WHOLE,)),
    "gelu": (aten.gelu.default, (X,)),
    "log1p": (aten.log1p.default, (X.abs(),)),
    "where": (aten.where.self, (X > 0, X, -X)),
    "sum": (aten.sum.dim_IntList, (X, [1])),
    "sum_of_bools": (aten.sum.dim_IntList, (X > 0, [0], True)),
    "argmax": (aten.argmax.default, (X, 1)),
    "cumsum": (aten.cumsum.default, (WHOLE, 1)),
    "softmax": (aten.softmax.int, (X, 1)),
    "softmax_half": (aten.softmax.int, (X.half(), 1)),
    "layer_norm": (aten.layer_norm.default, (X, [5], X[0], X[1])),
    "group_norm": (aten.group_norm.default, (IMAGE, 2)),
    "instance_norm": (aten.instance_norm.default, (IMAGE[0], None, None, None, None, True, 0.1, 1e-5, False)),
    "mean_window_of_padding": (aten.avg_pool2d.default, (IMAGE, [3, 3], [2, 2], [1, 1], True)),
    "max_window": (aten.max_pool2d.default, (IMAGE, [3, 2], [2, 2], [1, 1], 1, True)),
    "adaptive": (aten.adaptive_avg_pool2d.default, (IMAGE, [3, 2])),
    "convolution": (aten.conv2d.default, (IMAGE, KERNEL)),
    "matmul": (aten.matmul.default, (X, X.T.contiguous())),
    "attention": (aten.scaled_dot_product_attention.default, (IMAGE, IMAGE, IMAGE)),
    "bilinear": (aten.upsample_bilinear2d.default, (IMAGE, [14, 10], False)),
    "sort": (aten.sort.default, (WHOLE.float() + X[:2], 1)),
    "sort_of_integers": (aten.sort.stable, (WHOLE,), {"stable": True, "dim": 1}),
    "gather": (aten.gather.default, (X, 0, INDEX)),
    "scatter_add": (aten.scatter_add.default, (X, 0, INDEX, X[:2])),
    "embedding": (aten.embedding.default, (X, INDEX)),
    "cat": (aten.cat.default, ([X, X], 1)),
    "pad": (aten.reflection_pad1d.default, (X, [2, 1])),
    "strided": (aten.slice.Tensor, (X, 1, 1, 5, 2)),
    "tril": (aten.tril.default, (X,)),
    "pixels": (aten.pixel_shuffle.default, (IMAGE, 2)),
    "sum_of_windows": (aten.col2im.default, (IMAGE.reshape(2, 4, 35), [8, 6], [2, 2], [1, 1], [0, 0], [1, 1])),
}
WEIGHTS = ("convolution", "embedding")
"""Ops whose other tensors are weights of the program: their sizes stay numbers."""
ON_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
BACKENDS = [
    pytest.param(CompileOptions("8.6", "reference"), id="reference"),
    pytest.param(
        CompileOptions(get_target(None).version, "tensorrt", optimization_level=0), id="tensorrt", marks=ON_GPU
    ),
]


@pytest.mark.parametrize("options", BACKENDS)
# Static calls are slow here, and quick in the tests of each family.
@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.slow), True], ids=["static", "dynamic"])
# Quick: the ends and each third; all are compared with PyTorch among the samples of their families.
@thinned("name", CALLS, every=3)
def test_an_op(name: str, dynamic: bool, options: CompileOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_check, "GREATEST", 40)
    op, args, *rest = CALLS[name]
    beside = Beside(options)
    outcome = check_op(
        op,
        args,
        rest[0] if rest else {},
        dynamic=dynamic,
        target=options.target or "",
        constants=name in WEIGHTS,
        shared=name == "attention",  # queries and keys of unknown widths have no product
        also=beside,
    )
    assert not outcome.limits
    assert beside.agrees, beside
    assert beside.points == outcome.sizes


def test_differences_are_seen() -> None:
    x = torch.tensor([1.0, 200.0, torch.inf, torch.nan])
    for place, value, agrees in (
        (1, 200.03, True),
        (1, 200.05, False),
        (0, 1.5, False),
        (2, 1.0, False),
        (3, 0.0, False),
    ):
        other, beside = x.clone(), Beside(CompileOptions("8.6", "reference"), points=1)
        other[place] = value
        beside._compare("x", x, other)
        assert beside.agrees is agrees, (place, value)
    for wrong in (x.half(), x[:3], x.int()):
        beside = Beside(CompileOptions("8.6", "reference"), points=1)
        beside._compare("x", x, wrong)
        assert not beside.agrees
    beside = Beside(CompileOptions("8.6", "reference"), {torch.float32: 0.1}, points=1)
    beside._compare("x", x, x + 15)
    assert beside.agrees
    assert not Beside(CompileOptions("8.6", "reference")).agrees
