"""Small real networks in half precision, beside float32, at both ends of their dynamic dims."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

from tests.lower.precise import assert_close, dtype_at, facts, operand_dtypes, precise, reasons, user_outputs
from trtdiag.options import Precision

HALF = pytest.mark.parametrize(
    ("precision", "rtol", "atol"),
    # About ten roundings in a row on values of about 1, each half a unit of the last place: 2**-11 and 2**-8.
    [
        (Precision.FP16, 1e-2, 1e-2),
        pytest.param(Precision.BF16, 8e-2, 8e-2, marks=pytest.mark.slow),  # quick: op by op in test_precision_rules.py
    ],
)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.stem_norm = nn.BatchNorm2d(8)
        self.block = nn.Conv2d(8, 8, 3, 1, 1, groups=2)
        self.block_norm = nn.BatchNorm2d(8, affine=False)
        self.head = nn.Linear(8, 5)
        for norm in (self.stem_norm, self.block_norm):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem_norm(self.stem(x)))
        x = x + F.silu(self.block_norm(self.block(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def conv_net():
    torch.manual_seed(0)
    dims = {"x": {0: Dim("batch", min=1, max=5), 2: Dim("h", min=7, max=61), 3: Dim("w", min=7, max=61)}}
    return ConvNet().eval(), (torch.randn(2, 3, 31, 17),), {}, dims


@HALF
@pytest.mark.slow  # quick: test_precision_batch_norms.py
def test_a_conv_net_with_batch_norms(precision, rtol, atol):
    after = assert_close(conv_net(), precision, rtol, atol)
    half = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}[precision]
    assert dtype_at(after, "aten.conv2d") == {half}
    assert not [n for n in after.graph_module.graph.nodes if "aten.batch_norm" in str(n.target)]
    assert not [n for n in after.graph_module.graph.nodes if n.target is torch.ops.aten.mul.Tensor]  # kernels have it
    # The one sum over a dynamic number of pixels stays; between the two casts for it there is nothing else.
    assert set(reasons(after)) == {"aten.adaptive_avg_pool2d.default"}
    assert facts(after).casts == 4  # of the input, before and after the sum, of the output


class Block(nn.Module):
    """A decoder block as people write it: RMS norm, rotary positions, a mask of the least float, gated MLP."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.norm_1, self.norm_2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 48, bias=False), nn.Linear(width, 48, bias=False)
        self.down = nn.Linear(48, width, bias=False)
        self.register_buffer("inverse", 10000 ** (-torch.arange(0, self.size, 2) / self.size))

    def rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def rotated(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat((-right, left), -1) * sin

    def forward(self, x: Tensor, offset: Tensor) -> Tensor:
        batch, length, width = x.shape
        place = (torch.arange(length) + offset).float()
        angle = (self.inverse[:, None] @ place[None, :]).T.repeat(1, 2)
        cos, sin = angle.cos(), angle.sin()
        q, k, v = self.qkv(self.rms(x, self.norm_1)).view(batch, length, 3, self.heads, self.size).unbind(2)
        q, k = (self.rotated(each.transpose(1, 2), cos, sin) for each in (q, k))
        ahead = torch.arange(length)[None, :] > torch.arange(length)[:, None]
        mask = torch.zeros(length, length).masked_fill(ahead, torch.finfo(torch.float32).min)
        scores = q @ k.transpose(-1, -2) / self.size**0.5 + mask
        y = (scores.softmax(-1) @ v.transpose(1, 2)).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(y)
        y = self.rms(x, self.norm_2)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def block():
    torch.manual_seed(0)
    dims = {"x": {0: Dim("batch", min=1, max=3), 1: Dim("seq", min=2, max=61)}, "offset": {}}
    return Block().eval(), (torch.randn(2, 13, 32), torch.tensor([4000])), {}, dims


@pytest.mark.slow  # quick: far positions keep their angles
@HALF
def test_a_decoder_block(precision, rtol, atol):
    after = assert_close(block(), precision, rtol, atol)
    half = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}[precision]
    for op in ("aten.cos", "aten.sin", "aten.rsqrt", "aten.pow", "aten.softmax", "aten.mean"):
        assert dtype_at(after, op) == {torch.float32}, op
    assert dtype_at(after, "aten.linear") == {half}
    assert dtype_at(after, "aten.silu") == {half}
    # The angles of position 4012 are off by whole turns in half precision, where the product would be 4012 or 4016.
    assert torch.float32 in dtype_at(after, "aten.matmul")
    assert half in dtype_at(after, "aten.matmul")
    found = reasons(after)
    assert found["aten.rsqrt.default"].startswith("steep")
    assert found["aten.cos.default"].startswith("periodic")


@pytest.mark.slow  # quick: what stays, in test_precision_rules.py, with sines and cosines
def test_far_positions_keep_their_angles():
    module, (x, _), _, _ = block()
    offset = torch.tensor([60000])
    after = precise((module, (x, offset), {}, None))[0]
    with torch.no_grad():
        ours, wanted = user_outputs(after, [x, offset])[0], module(x, offset)
        place = (torch.arange(13) + offset).float()
        exact, rounded = module.inverse[:, None] * place, module.inverse.half()[:, None] * place.half()
    assert float((exact.sin() - rounded.float().sin()).abs().max()) > 1  # what casting the whole module would do
    assert float((ours - wanted).abs().max()) < 0.01


class Masked(nn.Module):
    def __init__(self, least):
        super().__init__()
        self.least = least

    def forward(self, q: Tensor, k: Tensor, keep: Tensor) -> Tensor:
        mask = (1 - keep.float())[:, None, None, :] * self.least
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)


@HALF
@pytest.mark.parametrize("least", [-10000.0, torch.finfo(torch.float32).min])
def test_a_mask_of_the_least_float_does_not_become_infinite(precision, rtol, atol, least):
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 7, 8), torch.randn(2, 4, 11, 8)
    keep = torch.ones(2, 11, dtype=torch.int64)
    keep[1, 5:] = 0
    after = assert_close((Masked(least).eval(), (q, k, keep), {}, None), precision, rtol, atol)
    nothing = user_outputs(after, [q, k, torch.zeros_like(keep)])[0]
    assert bool(nothing.isfinite().all())  # with minus infinity in the mask it would be nan
    half = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}[precision]
    assert operand_dtypes(after, "scaled_dot_product_attention") == [half] * 3
    clamps = [n for n in after.graph_module.graph.nodes if "aten.clamp" in str(n.target)]
    assert len(clamps) == (least < -65504)  # the least float32 is beyond bfloat16, too: it would round to infinity


class Warped(nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = nn.Conv2d(4, 2, 3, padding=1)
        self.after = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[2], x.shape[3]
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        base = torch.stack((xs, ys), -1).float()
        moved = base + self.offset(x).permute(0, 2, 3, 1)
        grid = moved / torch.tensor([w - 1, h - 1]) * 2 - 1
        return self.after(F.grid_sample(x, grid, align_corners=True))


@HALF
def test_sampling_positions_stay(precision, rtol, atol):
    torch.manual_seed(0)
    source = (Warped().eval(), (torch.randn(1, 4, 19, 23),), {}, None)
    after = assert_close(source, precision, rtol, atol)
    assert dtype_at(after, "grid_sampler") == {torch.float32}
    assert dtype_at(after, "aten.conv2d") != {torch.float32}
    stays = {each.node for each in facts(after).stays}
    (grid,) = [n for n in after.graph_module.graph.nodes if "grid_sampler" in str(n.target)]
    at = grid.args[1]
    seen = 0
    while at.op == "call_function" and "conv2d" not in str(at.target) and at.name in stays:
        seen += 1
        at = at.args[0]
    assert seen >= 4  # sub, mul, div, add: nothing on the way back to the conv is rounded
