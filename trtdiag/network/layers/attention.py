"""Attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch

from trtdiag.network.dtype import FLOATS, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_dtype, require_fitting, require_rank, require_same_dtype
from trtdiag.network.layers.quantize import rounded
from trtdiag.network.tensor import Tensor
from trtdiag.shapes.shape_constraints import attended, equal, same_shape

MOST_SCORES = 1 << 30
"""Own choice: that are computed at once by the reference function, 4 GiB of float32."""


class AttentionNormalizationOp(Enum):
    """What is done with the scores of a query."""

    NONE = "none"
    SOFTMAX = "softmax"


class CausalMaskKind(Enum):
    """Which keys a query sees: all, those up to its own index, or those up to its own index counted from the end."""

    NONE = "none"
    UPPER_LEFT = "upper left"
    LOWER_RIGHT = "lower right"


@dataclass(frozen=True)
class Attention(Layer, inputs=(3, 5), takes=FLOATS):
    """``softmax(query @ key^T + mask) @ value``, without a scale: the query brings it.

    Inputs are query (batch, heads, queries, d), key and value (batch, key heads, keys, d) and, optionally, a mask that
    broadcasts to the scores: true where a key is seen, or a number to add.  ``heads`` is a multiple of ``key heads``;
    neighbouring heads share one.  Keys and values are of one width, d.

    With ``quantize_to`` the softmax is quantized before it meets the values, by a scale that comes as the last input,
    one number.  TensorRT-RTX 1.7 builds that where query, key and value come from Dequantize layers.
    """

    op: AttentionNormalizationOp = AttentionNormalizationOp.SOFTMAX
    causal: CausalMaskKind = CausalMaskKind.NONE
    quantize_to: DType | None = None

    def __post_init__(self) -> None:
        to = self.quantize_to
        wanted = to in (None, DType.FP8, DType.INT8)
        require(wanted, f"a softmax is quantized to FP8 or int8, not to {to.value if to else to}")

    def has_mask(self, count: int) -> bool:
        """Whether a mask is among so many inputs, the fourth."""
        return count - (self.quantize_to is not None) == 4

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The query's shape with the size of a value."""
        query, key, value = inputs[:3]
        require_same_dtype(inputs[:3])
        masked = self.has_mask(len(inputs))
        require(
            masked or len(inputs) == 3 + (self.quantize_to is not None), f"{len(inputs)} inputs are too many or too few"
        )
        for tensor in inputs[: 3 + masked]:
            require_rank(tensor, (4,), "each input")
        for scale in inputs[3 + masked :]:
            require_dtype(scale, (query.dtype, DType.FLOAT32), "the scale")
            require_rank(scale, (0,), "the scale")
        require_fitting(facts, equal(query.shape[0], key.shape[0], "batch of query and key"))
        require_fitting(facts, same_shape(key.shape[:2], value.shape[:2], "key and value"))
        # "Query, Key, Value tensors must have the same head dimension", tensorrt-rtx 1.4.0.76 and 1.7.1.116.
        require_fitting(facts, equal(key.shape[3], value.shape[3], "width of key and value"))
        batch, shared = query.shape[:1], key.shape[1:2]
        mask = inputs[3].shape if masked else None
        key_shape, value_shape = (*batch, *key.shape[1:]), (*batch, *shared, *value.shape[2:])
        require_fitting(facts, attended(query.shape, key_shape, value_shape, mask, shared=True))
        if mask is not None:
            require_dtype(inputs[3], (DType.BOOL, query.dtype), "the mask")
        return (Tensor(query.dtype, (*query.shape[:3], value.shape[3])),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Computed in float32, head by head where there are many scores; a query that sees no key gives 0."""
        query, key, value = inputs[:3]
        batch, heads, queries = query.shape[:3]
        mask = inputs[3] if self.has_mask(len(inputs)) else None
        scale = None if self.quantize_to is None else inputs[-1].float()
        times = heads // key.shape[1]
        if batch * heads * queries * key.shape[2] <= MOST_SCORES:
            key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
            return (self._attended(query, key, value, mask, scale),)
        made = query.new_empty((*query.shape[:3], value.shape[3]))
        for image in range(batch):
            for head in range(heads):
                own = (slice(image, image + 1), slice(head, head + 1))
                shared = (own[0], slice(head // times, head // times + 1))
                seen = None if mask is None else mask.expand(batch, heads, *mask.shape[2:])[own]
                made[own] = self._attended(query[own], key[shared], value[shared], seen, scale)
        return (made,)

    def _attended(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        scale: torch.Tensor | None,
    ) -> torch.Tensor:
        scores = query.float() @ key.float().mT
        seen = self._seen(scores, mask)
        if mask is not None and mask.dtype is not torch.bool:
            scores = scores + mask.float()
        softmax = self.op is AttentionNormalizationOp.SOFTMAX
        if seen is not None:
            scores = scores.masked_fill(~seen, -torch.inf if softmax else 0)
        weights = torch.softmax(scores, -1) if softmax else scores
        if softmax and seen is not None:
            weights = weights.masked_fill(~seen.any(-1, keepdim=True), 0)
        if self.quantize_to is not None and scale is not None:
            weights = rounded(weights / scale, self.quantize_to).float() * scale
        return (weights @ value.float()).to(query.dtype)

    def _seen(self, scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor | None:
        """Which keys each query sees; ``None`` where it sees all."""
        seen = mask.expand(scores.shape) if mask is not None and mask.dtype is torch.bool else None
        if self.causal is CausalMaskKind.NONE:
            return seen
        queries, keys = scores.shape[-2:]
        lower_right = self.causal is CausalMaskKind.LOWER_RIGHT
        causal = torch.ones((queries, keys), dtype=torch.bool).tril(keys - queries if lower_right else 0)
        return causal.expand(scores.shape) if seen is None else causal & seen
