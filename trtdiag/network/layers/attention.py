"""Attention, and what stands around it in decoders: caches that are written, and positions as angles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch

from trtdiag.network.dtype import FLOATS, INDICES, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import (
    Layer,
    refuse_negative,
    require,
    require_dtype,
    require_equal,
    require_fitting,
    require_rank,
    require_same_dtype,
)
from trtdiag.network.layers.quantize import rounded
from trtdiag.network.tensor import Tensor
from trtdiag.shapes.shape_constraints import attended, equal, same_shape
from trtdiag.symbolic import Num, mul, sub

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


class KVCacheMode(Enum):
    """Where updates go."""

    LINEAR = "one after the other from the given place on"


@dataclass(frozen=True)
class KVCacheUpdate(Layer, inputs=3, takes=FLOATS):
    """``out[i, :, indices[i] + s, :] = update[i, :, s, :]``; all else is the cache's.

    Inputs are cache (batch, heads, most steps, width), update (batch, heads, steps, width) and where to begin in each
    batch, (batch) of int32.  No update reaches over the end.

    TensorRT writes into the cache itself: it is an input of the network whose steps are a number, the result is an
    output, and both are bound to the same memory.  Source: its page of the operator, KVCacheUpdate.html.
    """

    mode: KVCacheMode = KVCacheMode.LINEAR

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The type of the cache."""
        cache, update, indices = inputs
        require_same_dtype((cache, update))
        # "Write indices must be of type int32", tensorrt-rtx 1.4.0.76 and 1.7.1.116, whatever TensorRT's page says.
        require_dtype(indices, (DType.INT32,), "the indices")
        require_rank(cache, (4,), "the cache")
        require_rank(update, (4,), "the update")
        require_rank(indices, (1,), "the indices")
        require(isinstance(cache.shape[2], Num), "the steps of the cache are no number")
        for axis, what in ((0, "batch"), (1, "heads"), (3, "width")):
            require_equal(facts, cache.shape[axis], update.shape[axis], f"{what} of cache and update")
        require_equal(facts, cache.shape[0], indices.shape[0], "batch of cache and indices")
        fits = not facts.never_at_least(sub(cache.shape[2], update.shape[2]), 0)
        require(fits, "the update has more steps than the cache")
        return (Tensor(cache.dtype, cache.shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """On a copy; a place outside is an error."""
        cache, update, indices = inputs
        return (self.write(cache.clone(), update, indices),)

    def write(self, cache: torch.Tensor, update: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        """The cache itself, after it was written into.

        Raises:
            IndexError: A place is outside; nothing was written then.
        """
        steps = indices.long()[:, None] + torch.arange(update.shape[2])
        if steps.numel() and not 0 <= int(steps.min()) <= int(steps.max()) < cache.shape[2]:
            raise IndexError(f"steps {int(steps.min())} to {int(steps.max())} are not all in the cache")
        places = steps[:, None, :, None].expand(update.shape)
        return cache.scatter_(2, places, update)


@dataclass(frozen=True)
class RotaryEmbedding(Layer, inputs=(3, 4), takes=FLOATS):
    """``(a, b)`` becomes ``(a cos - b sin, b cos + a sin)`` for each pair of the last dim.

    Inputs are x (batch, heads, steps, width) and cosines and sines (batch, steps, pairs); or these are (positions,
    pairs), and a fourth input (batch, steps) of integers says which row each step has.

    Attributes:
        interleaved: Whether the pairs are neighbours; else one is in the first half and one in the second.
        rotary_embedding_dim: How many elements of the width, from its start, are turned; the others stay.  0: all.
    """

    interleaved: bool = False
    rotary_embedding_dim: int = 0

    def __post_init__(self) -> None:
        dim = self.rotary_embedding_dim
        require(dim >= 0 and dim % 2 == 0, f"{dim} elements are no pairs")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The type of x."""
        x, cos, sin = inputs[:3]
        require_same_dtype(inputs[:3])
        require_rank(x, (4,))
        placed = len(inputs) == 4
        for tensor, role in ((cos, "cos"), (sin, "sin")):
            require_rank(tensor, (2,) if placed else (3,), role)
        if placed:
            positions = inputs[3]
            require_dtype(positions, INDICES, "the positions")
            require_rank(positions, (2,), "the positions")
            require_equal(facts, cos.shape[0], sin.shape[0], "rows of cos and sin")
        for rows in (inputs[3],) if placed else (cos, sin):
            require_equal(facts, rows.shape[0], x.shape[0], "batch")
            require_equal(facts, rows.shape[1], x.shape[2], "steps")
        width, dim = x.shape[3], self.rotary_embedding_dim
        if dim:
            require(not facts.never_at_least(width, dim), f"{dim} elements are more than the width")
        for tensor in (cos, sin):
            require_equal(facts, mul(2, tensor.shape[-1]), Num(dim) if dim else width, "turned elements")
        return (Tensor(x.dtype, x.shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Each product and each sum in the dtype of x."""
        x, cos, sin = inputs[:3]
        if len(inputs) == 4:
            rows = inputs[3].reshape(-1)
            refuse_negative(rows, "position")
            cos, sin = (table.index_select(0, rows.long()).reshape(*inputs[3].shape, -1) for table in (cos, sin))
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        turned, kept = x.tensor_split([2 * cos.shape[-1]], -1)
        if self.interleaved:
            one, other = turned[..., 0::2], turned[..., 1::2]
        else:
            one, other = turned.tensor_split([cos.shape[-1]], -1)
        pair = (one * cos - other * sin, other * cos + one * sin)
        y = torch.stack(pair, -1).flatten(-2) if self.interleaved else torch.cat(pair, -1)
        return (torch.cat([y, kept], -1) if kept.shape[-1] else y,)
