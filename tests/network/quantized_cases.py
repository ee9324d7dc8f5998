"""Quantize and its kin, against tables and loops that share nothing with them."""

from __future__ import annotations

import torch
from network_cases import POINTS, Case, In

from trtdiag.network import DType
from trtdiag.network.layers.attention import Attention
from trtdiag.network.layers.quantize import Dequantize, DynamicQuantize, Quantize

_X = In(("b", "s", 6))
_SCALE = torch.tensor(0.25)
_EACH = torch.tensor([0.1, 0.2, 0.3, 0.5, 0.7, 1.1])
_BLOCKS = torch.tensor([[[0.1, 0.3, 0.2]]])
_ROWS = torch.tensor([[0.5, 2.0, 1.0, 0.1, 0.2, 1.5], [0.25, 3.0, 0.5, 7.0, 0.3, 2.0]])
_FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _nearest(x: torch.Tensor) -> torch.Tensor:
    """In the numbers of FP4, by the distance to each; of two as near the one with an even place."""
    distance = (x.abs()[..., None] - _FP4).abs()
    near = distance == distance.amin(-1, keepdim=True)
    place = torch.where(near & (torch.arange(8) % 2 == 0), torch.arange(8), -1).amax(-1)
    place = torch.where(place < 0, near.int().argmax(-1), place)
    return torch.copysign(_FP4[place], x).to(torch.float8_e4m3fn)


def _whole(x: torch.Tensor, scale: torch.Tensor, low: int, high: int) -> torch.Tensor:
    return torch.round(x / scale).clamp(low, high).to(torch.int8)


def _mxfp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each block's least power of two by which no element is more than 448."""
    scales = torch.ones(x.shape[0], x.shape[1] // 32)
    made = torch.zeros_like(x).to(torch.float8_e4m3fn)
    for row in range(x.shape[0]):
        for block in range(scales.shape[1]):
            part = x[row, 32 * block : 32 * block + 32]
            scale = 2.0**-127
            while float(part.abs().max()) > 448 * scale:
                scale *= 2
            scales[row, block] = scale
            made[row, 32 * block : 32 * block + 32] = (part / scale).to(torch.float8_e4m3fn)
    return made, scales.to(torch.float8_e8m0fnu)


def _nvfp4(x: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scales = [part.abs().amax(1) / 6 / second for part in x.split(16, 1)]
    stored = torch.stack(scales, 1).to(torch.float8_e4m3fn)
    parts = [_nearest(part / (stored[:, i, None].float() * second)) for i, part in enumerate(x.split(16, 1))]
    return torch.cat([part.float() for part in parts], 1).to(torch.float8_e4m3fn), stored


def _attended(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) + (rest[0] if len(rest) == 2 else 0)
    weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
    stored = (weights / rest[-1]).to(torch.float8_e4m3fn).float()
    return torch.einsum("bhqk,bhkd->bhqd", stored * rest[-1], value)


CASES = [
    Case("quantize_int8", Quantize(DType.INT8), (_X, torch.tensor(0.02)), lambda x, s: _whole(x, s, -128, 127)),
    Case("quantize_int8_each", Quantize(DType.INT8, 2), (_X, _EACH), lambda x, s: _whole(x, s, -128, 127)),
    Case("quantize_int4", Quantize(DType.INT4), (_X, _SCALE), lambda x, s: _whole(x, s, -8, 7)),
    Case(
        "quantize_int4_blocks",
        Quantize(DType.INT4),
        (In((2, 3, 6)), _BLOCKS.expand(2, 3, 3).contiguous()),
        lambda x, s: torch.cat([_whole(x[..., 2 * i : 2 * i + 2], s[..., i : i + 1], -8, 7) for i in range(3)], -1),
        points=POINTS[:2],
    ),
    Case(
        "quantize_fp8",
        Quantize(DType.FP8),
        (In(("b", "s", 6), spread=300.0), torch.tensor(0.5)),
        lambda x, s: (x * 2).clamp(-448, 448).to(torch.float8_e4m3fn),
    ),
    Case("quantize_fp4", Quantize(DType.FP4), (_X, torch.tensor(0.5)), lambda x, s: _nearest(x * 2)),
    Case(
        "dequantize_int8",
        Dequantize(DType.FLOAT32, 2),
        (In(("b", "s", 6), DType.INT8, below=127, least=-128), _EACH),
        lambda x, s: x.float() * s,
    ),
    Case(
        "dequantize_int4_half",
        Dequantize(DType.FLOAT16),
        (
            In((4, 6), DType.INT4, below=8, least=-8),
            _ROWS.half(),
        ),
        lambda x, s: x.half() * s.repeat_interleave(2, 0),
        points=POINTS[:2],
    ),
    Case(
        "dequantize_fp8",
        Dequantize(DType.FLOAT32),
        (In(("b", 6), DType.FP8, below=9, least=-9), _SCALE),
        lambda x, s: x.float() / 4,
    ),
    Case(
        "dequantize_mxfp8",
        Dequantize(DType.FLOAT32),
        (In((2, 64), DType.FP8), torch.tensor([[0.5, 2.0], [4.0, 1.0]]).to(torch.float8_e8m0fnu)),
        lambda x, s: x.float() * s.float().repeat_interleave(32, 1),
        points=POINTS[:2],
    ),
    *(
        Case(
            f"attention_quantized{'_masked' if masks else ''}",
            Attention(quantize_to=DType.FP8),
            (*(In(("b", 4, "s", 5)),) * 3, *masks, torch.tensor(1 / 448)),
            _attended,
            1e-5,
        )
        for masks in ((), (In((1, 1, "s", "s")),))
    ),
    Case("dynamic_quantize_mxfp8", DynamicQuantize(DType.FP8, 1, 32), (In(("b", 64), spread=50.0),), _mxfp8),
    Case("dynamic_quantize_nvfp4", DynamicQuantize(DType.FP4, 1, 16), (In(("b", 32)), torch.tensor(0.01)), _nvfp4),
]
