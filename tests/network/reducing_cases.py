"""Layers that sum, sort or normalise over dims, and matrix products."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from network_cases import POINTS, Case, In

from trtdiag.network import DType
from trtdiag.network.layers.attention import Attention, AttentionNormalizationOp, CausalMaskKind
from trtdiag.network.layers.loop import Cell, Loop
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.reduce import Cumulative, Reduce, ReduceOperation, TopK, TopKOperation
from trtdiag.network.layers.softmax import SoftMax

X = In(("b", "h", 3))
INT = In(("b", "h", 3), DType.INT64, below=50, least=-50)
# Sums of up to 31 float32 numbers in another order: 31 ulps of 1.2e-7, and the size of the terms.
NEAR = 2e-5

_R = ReduceOperation
_M = MatrixOperation


def _sorted(x: torch.Tensor, k: int, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """By counting for each element how many come before it: independent of any sort."""
    before = (x[..., None, :] > x[..., :, None]) if descending else (x[..., None, :] < x[..., :, None])
    ties = x[..., None, :] == x[..., :, None]
    earlier = torch.ones(x.shape[-1], x.shape[-1]).tril(-1).bool()
    rank = (before | (ties & earlier)).sum(-1)
    order = torch.zeros_like(rank).scatter_(-1, rank, torch.arange(x.shape[-1]).expand_as(rank))[..., :k]
    return torch.take_along_dim(x, order, -1), order.int()


def _attention(q, k, v, mask=None, *, causal=None):
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    if causal is not None:
        mask = torch.ones(q.shape[2], k.shape[2]).tril(k.shape[2] - q.shape[2] if causal == "lower" else 0).bool()
    return F.scaled_dot_product_attention(q, k, v, mask, scale=1.0)


def _recurrent(cell: str, reverse: bool) -> Callable[..., tuple[torch.Tensor, ...]]:
    """torch's layer, whose own product with the input is one with ones on the diagonal."""

    def expected(
        given: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *states: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        options = {"nonlinearity": "relu"} if cell == "RNN" else {}
        layer = getattr(torch.nn, cell)(given.shape[2], weight.shape[1], **options)
        parts = torch.eye(given.shape[2]), weight, torch.zeros(given.shape[2]), bias[0]
        with torch.no_grad():
            for parameter, value in zip(layer.parameters(), parts, strict=True):
                parameter.copy_(value)
            hidden = tuple(state[None].contiguous() for state in states)
            y, last = layer(given.flip(0) if reverse else given, hidden if cell == "LSTM" else hidden[0])
        ends = last if isinstance(last, tuple) else (last,)
        return (y.flip(0) if reverse else y, *(end[0] for end in ends))

    return expected


def _weights(gates: int, spread: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(gates)
    return torch.randn(5 * gates, 5, generator=generator) * spread, torch.randn(1, 5 * gates, generator=generator)


_STATE = In(("b", 5))
_Q, _K = In(("b", 4, "s", 5)), In(("b", 4, "h", 5))
_SHARED = In(("b", 2, "h", 5))
_LEFT, _RIGHT = In(("b", "h", 7)), In((1, 7, "s"))

CASES = [
    Case("softmax", SoftMax(1), (X,), lambda x: x.exp() / x.exp().sum(1, keepdim=True), NEAR),
    Case("softmax_half", SoftMax(2), (In(("b", "h", 3), DType.FLOAT16),), lambda x: x.double().softmax(2).half(), 1e-3),
    # Computed in float16 the squares would be infinite.
    Case(
        "layer_norm_half_of_large_elements",
        Normalization((2,), 1e-5),
        (
            In(("b", "s", 7), DType.FLOAT16, spread=3000.0),
            torch.arange(7.0).half().reshape(1, 1, 7),
            torch.ones(1, 1, 7).half(),
        ),
        lambda x, w, b: F.layer_norm(x.double(), (7,), w.flatten().double(), b.flatten().double(), 1e-5).half(),
        1e-3,
    ),
    Case("reduce_SUM", Reduce(_R.SUM, (0, 2)), (X,), lambda x: torch.einsum("abc->b", x), NEAR),
    Case("reduce_SUM_int", Reduce(_R.SUM, (1,), True), (INT,), lambda x: x.cumsum(1)[:, -1:]),
    Case("reduce_AVG", Reduce(_R.AVG, (2, 1), True), (X,), lambda x: x.sum((1, 2), True) / (3 * x.size(1)), NEAR),
    Case("reduce_MAX", Reduce(_R.MAX, (1,)), (X,), lambda x: x.sort(1).values[:, -1]),
    Case("reduce_MIN_int", Reduce(_R.MIN, (1, 2)), (INT,), lambda x: x.flatten(1).sort(1).values[:, 0]),
    Case("reduce_PROD", Reduce(_R.PROD, (0, 2)), (X,), lambda x: x.prod(0).prod(-1), 1e-4),
    Case(
        "cumulative", Cumulative(1), (INT,), lambda x: torch.stack([x[:, : i + 1].sum(1) for i in range(x.size(1))], 1)
    ),
    Case(
        "cumulative_exclusive_reverse",
        Cumulative(1, exclusive=True, reverse=True),
        (INT,),
        lambda x: torch.stack([x[:, i + 1 :].sum(1) for i in range(x.size(1))], 1),
    ),
    Case("cumulative_exclusive", Cumulative(1, exclusive=True), (INT,), lambda x: x.cumsum(1) - x),
    Case(
        "loop_lstm",
        Loop(Cell.LSTM),
        (In(("s", "b", 20)), *_weights(4), _STATE, _STATE),
        _recurrent("LSTM", False),
        NEAR,
    ),
    Case(
        "loop_gru_reverse",
        Loop(Cell.GRU, reverse=True),
        (In(("h", "b", 15)), *_weights(3), _STATE),
        _recurrent("GRU", True),
        NEAR,
    ),
    # Nothing bounds its state: its greatest eigenvalue is 0.8, or what a step rounds would grow with each of 13 steps.
    Case("loop_relu", Loop(Cell.RELU), (In(("s", "b", 5)), *_weights(1, 0.25), _STATE), _recurrent("RNN", False), NEAR),
    Case("topk_max", TopK(TopKOperation.MAX, 3, 1), (In(("b", "h")),), lambda x: _sorted(x, 3, True)),
    # The most that TensorRT's TopK gives; nothing of it is dynamic.
    Case(
        "topk_most",
        TopK(TopKOperation.MAX, 3840, 1),
        (In((2, 3841)),),
        lambda x: (x.topk(3840, 1).values, x.topk(3840, 1).indices.int()),
        points=POINTS[:2],
    ),
    Case("topk_min", TopK(TopKOperation.MIN, 4, 2), (In(("b", 2, "h")),), lambda x: _sorted(x, 4, False)),
    Case(
        "topk_min_ties",
        TopK(TopKOperation.MIN, 4, 1),
        (In(("b", "h"), DType.INT64, below=3),),
        lambda x: _sorted(x, 4, False),
    ),
    Case("matmul", MatrixMultiply(), (_LEFT, _RIGHT), lambda a, b: torch.einsum("bij,jk->bik", a, b[0]), NEAR),
    Case(
        "matmul_transposed",
        MatrixMultiply(_M.TRANSPOSE, _M.TRANSPOSE),
        (In(("b", 7, "h")), In(("b", "s", 7))),
        lambda a, b: torch.einsum("bji,bkj->bik", a, b),
        NEAR,
    ),
    Case(
        "matmul_vector_right",
        MatrixMultiply(_M.NONE, _M.VECTOR),
        (_LEFT, In(("b", 7))),
        lambda a, b: torch.einsum("bij,bj->bi", a, b),
        NEAR,
    ),
    Case(
        "matmul_vector_left",
        MatrixMultiply(_M.VECTOR, _M.NONE),
        (In((1, 7)), In(("b", 7, "s"))),
        lambda a, b: torch.einsum("j,bjk->bk", a[0], b),
        NEAR,
    ),
    Case(
        "matmul_vectors",
        MatrixMultiply(_M.VECTOR, _M.VECTOR),
        (In(("b", "h")), In(("b", "h"))),
        lambda a, b: (a * b).sum(-1),
        NEAR,
    ),
    Case(
        "layer_norm",
        Normalization((2,), 1e-5),
        (In(("b", "s", 7)), torch.arange(7.0).reshape(1, 1, 7), torch.ones(1, 1, 7)),
        lambda x, w, b: F.layer_norm(x, (7,), w.flatten(), b.flatten(), 1e-5),
        NEAR,
    ),
    Case(
        "instance_norm",
        Normalization((2, 3), 1e-3),
        (In(("b", 3, "h", "w")), torch.arange(3.0).reshape(1, 3, 1, 1), torch.ones(1, 3, 1, 1)),
        lambda x, w, b: F.instance_norm(x, weight=w.flatten(), bias=b.flatten(), eps=1e-3),
        NEAR,
    ),
    Case(
        "group_norm",
        Normalization((2,), 1e-5, groups=3),
        (In(("b", 6, "h")), torch.arange(6.0).reshape(1, 6, 1), torch.ones(1, 6, 1)),
        lambda x, w, b: F.group_norm(x, 3, w.flatten(), b.flatten(), 1e-5),
        NEAR,
    ),
    Case(
        "group_norm_2d",
        Normalization((2, 3), 1e-5, groups=2),
        (In(("b", 6, "h", "w")), torch.arange(6.0).reshape(1, 6, 1, 1), torch.ones(1, 6, 1, 1)),
        lambda x, w, b: F.group_norm(x, 2, w.flatten(), b.flatten(), 1e-5),
        NEAR,
    ),
    Case(
        "instance_norm_1d",
        Normalization((2,), 1e-3),
        (In(("b", 3, "h")), torch.arange(3.0).reshape(1, 3, 1), torch.ones(1, 3, 1)),
        lambda x, w, b: F.instance_norm(x, weight=w.flatten(), bias=b.flatten(), eps=1e-3),
        NEAR,
    ),
    Case(
        "layer_norm_of_a_matrix",
        Normalization((1,), 1e-5),
        (In(("b", 7)), torch.arange(7.0).reshape(1, 7), torch.ones(1, 7)),
        lambda x, w, b: F.layer_norm(x, (7,), w.flatten(), b.flatten(), 1e-5),
        NEAR,
    ),
    Case("attention", Attention(), (_Q, _K, _K), _attention, NEAR),
    Case("attention_mask", Attention(), (_Q, _K, _K, In((1, 1, "s", "h"))), _attention, NEAR),
    Case(
        "attention_bool_mask",
        Attention(),
        (_Q, In(("b", 4, 5, 5)), In(("b", 4, 5, 5)), torch.tensor([[[[True, False, True, True, False]]]])),
        _attention,
        NEAR,
    ),
    Case(
        "attention_shared_lower_right",
        Attention(causal=CausalMaskKind.LOWER_RIGHT),
        (In(("b", 4, "h", 5)), In(("b", 2, "h+2", 5)), In(("b", 2, "h+2", 5))),
        lambda q, k, v: _attention(q, k, v, causal="lower"),
        NEAR,
    ),
    Case(
        "attention_upper_left",
        Attention(causal=CausalMaskKind.UPPER_LEFT),
        (_Q, _SHARED, _SHARED),
        lambda q, k, v: _attention(q, k, v, causal="upper"),
        NEAR,
    ),
    Case(
        "attention_linear",
        Attention(AttentionNormalizationOp.NONE),
        (_Q, _K, _K),
        lambda q, k, v: q @ (k.mT @ v),
        # Three sums of products in another order, of terms up to a few thousand.
        1e-3,
    ),
]
