"""KVCacheUpdate: new keys or values written into the cache that a network is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch

from trtdiag.network.dtype import FLOATS, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_dtype, require_equal, require_rank, require_same_dtype
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Num, sub


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
