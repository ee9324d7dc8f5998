"""Attention over more scores than are computed at once: head by head, with the same result."""

from __future__ import annotations

import pytest
import torch

from tests.harness.rows import each
from trtdiag.network.layers import attention
from trtdiag.network.layers.attention import Attention, AttentionNormalizationOp, CausalMaskKind

BATCH, HEADS, QUERIES, KEYS = 3, 6, 7, 11


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


MASKS = {
    "none": None,
    "rows": _random(1, 1, QUERIES, KEYS) > 0,
    "of each head": _random(BATCH, HEADS, QUERIES, KEYS),
    "of each image": _random(BATCH, 1, 1, KEYS),
    "of heads": _random(1, HEADS, QUERIES, 1) > 0.5,
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@each("causal", CausalMaskKind)
@each("op", AttentionNormalizationOp)
@each("shared", [1, 2, 6])
def test_one_head_at_a_time_is_the_same(
    op: AttentionNormalizationOp,
    causal: CausalMaskKind,
    mask: torch.Tensor | None,
    shared: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = Attention(op, causal)
    query, key, value = (
        _random(BATCH, HEADS, QUERIES, 5),
        _random(BATCH, shared, KEYS, 5),
        _random(BATCH, shared, KEYS, 4),
    )
    given = (query, key, value) if mask is None else (query, key, value, mask)
    whole = layer.reference(*given)[0]
    scores = BATCH * HEADS * QUERIES * KEYS
    monkeypatch.setattr(attention, "MOST_SCORES", scores)
    assert torch.equal(layer.reference(*given)[0], whole)
    monkeypatch.setattr(attention, "MOST_SCORES", scores - 1)
    # The same sums of 5 and 11 products, in another order at most.
    torch.testing.assert_close(layer.reference(*given)[0], whole, rtol=1e-5, atol=1e-6)


def test_no_tensor_of_all_scores_is_made() -> None:
    """2**31 scores, 8 GiB, of tensors of 256 KiB; their shapes are enough."""
    seen: list[int] = []

    class Watched(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            made = func(*args, **(kwargs or {}))
            seen.extend(each.numel() for each in (made if isinstance(made, (tuple, list)) else (made,)))
            return made

    query = torch.empty(2, 4, 1 << 14, 1, device="meta")
    with Watched(), torch.device("meta"):
        (made,) = Attention().reference(query, query, query)
    assert made.shape == query.shape
    assert max(seen) == 1 << 28
