"""Batch norms in half precision: taken into the convolution before them, else a scale and a shift."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.harness.rows import thinned
from tests.lower.precise import precise, user_outputs
from trtdiag.options import Precision


class Normed(nn.Module):
    """A convolution of one kind, and a batch norm behind it."""

    def __init__(self, convolution: nn.Module, spread: float = 1.0) -> None:
        super().__init__()
        self.convolution = convolution
        dims = {3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[convolution.weight.dim()]
        self.norm = dims(convolution.out_channels)
        nn.init.normal_(self.norm.weight), nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5 * spread, 2 * spread)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.convolution(x)).relu()


def count(after: object, target: object) -> int:
    return sum(node.target is target for node in after.graph_module.graph.nodes)  # type: ignore[attr-defined]


def compared(module: nn.Module, *inputs: Tensor, precision: Precision = Precision.FP16) -> object:
    """The program in half precision, after comparing what it gives: two roundings of values of about 1."""
    after = precise((module.eval(), inputs, {}, None), precision)[0]
    with torch.no_grad():
        wanted = module(*inputs)
        given = user_outputs(after, list(inputs))
    for one, other in zip(given, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        tolerance = {Precision.FP16: 4e-3, Precision.BF16: 4e-2}[precision] * float(other.abs().max())
        assert float((one - other).abs().max()) <= tolerance
    return after


KINDS = {
    "1d": (lambda: nn.Conv1d(3, 7, 3), (2, 3, 11)),
    "2d without a bias": (lambda: nn.Conv2d(3, 7, 3, bias=False), (2, 3, 11, 5)),
    "groups and dilation": (lambda: nn.Conv2d(6, 8, 3, 2, 2, 2, groups=2), (1, 6, 17, 13)),
    "3d": (lambda: nn.Conv3d(2, 3, 2), (1, 2, 3, 5, 7)),
}


# Quick: float16; bfloat16 goes the same way.
@pytest.mark.parametrize("precision", [Precision.FP16, pytest.param(Precision.BF16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_convolution_takes_it_in(kind: str, precision: Precision) -> None:
    torch.manual_seed(0)
    make, shape = KINDS[kind]
    after = compared(Normed(make()), torch.randn(shape), precision=precision)
    assert not count(after, torch.ops.aten.mul.Tensor)
    assert not count(after, torch.ops.aten.add.Tensor)
    placeholders = [node.name for node in after.graph_module.graph.nodes if node.op == "placeholder"]  # type: ignore[attr-defined]
    # What they were made of is gone; nothing read the counter before either.
    assert [name.rpartition("_")[2] for name in placeholders] == ["tracked", "kernel", "bias", "x"]


def test_a_small_variance_is_no_reason_against_it() -> None:
    torch.manual_seed(0)
    module = Normed(nn.Conv2d(3, 5, 3), spread=1e-7)  # scales of about 2,000: half precision holds no such variance
    after = compared(module, torch.randn(2, 3, 9, 9) / 1000)
    assert not count(after, torch.ops.aten.mul.Tensor)


# Quick: the ends.
@thinned("kind", ["read twice", "transposed", "none before", "kept"], every=9)
def test_a_scale_and_a_shift_elsewhere(kind: str) -> None:
    torch.manual_seed(0)

    class Other(Normed):
        def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
            if kind == "none before":
                return F.relu(self.norm(x.sigmoid()))
            y = self.convolution(x)
            return (self.norm(y), y.relu()) if kind == "read twice" else self.norm(y)

    made = nn.ConvTranspose2d(3, 3, 2) if kind == "transposed" else nn.Conv2d(3, 3, 3)
    keep = ("aten.conv2d",) if kind == "kept" else ()
    module, x = Other(made).eval(), torch.randn(2, 3, 7, 9)
    after = precise((module, (x,), {}, None), keep=keep)[0] if keep else compared(module, x)
    assert count(after, torch.ops.aten.mul.Tensor) == 1
    assert count(after, torch.ops.aten.add.Tensor) == 1


def test_a_kernel_that_two_convolutions_share_stays_as_it_is_for_the_other() -> None:
    torch.manual_seed(0)

    class Shared(Normed):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.norm(self.convolution(x)), self.convolution(-x)

    after = compared(Shared(nn.Conv2d(3, 5, 3)), torch.randn(1, 3, 8, 8))
    assert not count(after, torch.ops.aten.mul.Tensor)
    assert count(after, torch.ops.aten.conv2d.default) == 2


def test_a_kernel_beyond_half_precision_keeps_the_batch_norm_apart() -> None:
    torch.manual_seed(0)
    module = Normed(nn.Conv2d(3, 5, 3), spread=1e-4)  # scales of about 100
    with torch.no_grad():
        module.convolution.weight[0, 0, 0, 0] = 6e4  # times 100
        module.norm.weight.fill_(1.0)
    after = precise((module.eval(), (torch.randn(1, 3, 8, 8) / 1e6,), {}, None))[0]
    assert count(after, torch.ops.aten.mul.Tensor) == 1
