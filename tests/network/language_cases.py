"""Layers that language models have, and TensorRT from 10 on."""

from __future__ import annotations

import torch
from network_cases import Case, In

from trtdiag.network import DType
from trtdiag.network.layers.attention import KVCacheUpdate, RotaryEmbedding

_X = In(("b", 3, "s", 10))
_ANGLES = (In(("b", "s", 5)), In(("b", "s", 5)))
_TABLES = (In((9, 5)), In((9, 5)))
# A product and a sum of complex numbers round elsewhere than those of their parts.
NEAR = 1e-5


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Neighbours as complex numbers, times those of the angles."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.complex(cos, sin)[:, None]).flatten(-2)


def _turned_halves(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """As models write it: with cosines and sines twice, and the halves exchanged."""
    cos, sin = (torch.cat([t, t], -1)[:, None] for t in (cos, sin))
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def _written(cache: torch.Tensor, update: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    made = cache.clone()
    for image, start in enumerate(indices.tolist()):
        made[image, :, start : start + update.shape[2]] = update[image]
    return made


CASES = [
    Case("rotary", RotaryEmbedding(), (_X, *_ANGLES), _turned_halves),
    Case(
        "rotary_half_precision",
        RotaryEmbedding(),
        tuple(In(one.shape, DType.FLOAT16) for one in (_X, *_ANGLES)),
        _turned_halves,
    ),
    Case("rotary_interleaved", RotaryEmbedding(interleaved=True), (_X, *_ANGLES), _turned, NEAR),
    Case(
        "rotary_of_a_part",
        RotaryEmbedding(rotary_embedding_dim=10),
        (In(("b", 3, "s", 13)), *_ANGLES),
        lambda x, cos, sin: torch.cat([_turned_halves(x[..., :10], cos, sin), x[..., 10:]], -1),
    ),
    Case(
        "rotary_at_positions",
        RotaryEmbedding(),
        (_X, *_TABLES, In(("b", "s"), DType.INT64, below=9)),
        lambda x, cos, sin, rows: _turned_halves(x, cos[rows], sin[rows]),
    ),
    Case(
        "kv_cache_update",
        KVCacheUpdate(),
        (In(("b", 2, 20, 5)), In(("b", 2, "s", 5)), In(("b",), DType.INT32, below=8)),
        _written,
    ),
]
