"""Models that keep keys and values in caches, and what is counted while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

BATCH, HEADS, STEPS, WIDTH = 2, 3, 17, 4
SHAPE = (BATCH, HEADS, STEPS, WIDTH)
Write = Callable[[Tensor, Tensor, Tensor], Any]
"""Writes an update (batch, heads, steps, width) into a cache at positions (steps)."""


def _index_copy(cache: Tensor, update: Tensor, at: Tensor) -> None:
    cache.index_copy_(2, at, update)


def _index_put(cache: Tensor, update: Tensor, at: Tensor) -> None:
    cache[:, :, at] = update


def _one_place(cache: Tensor, update: Tensor, at: Tensor) -> None:
    # Indexing in Python would read the number.
    torch.ops.aten.index_put_.default(cache, [None, None, at[0]], update[:, :, 0])


def _slice(cache: Tensor, update: Tensor, at: Tensor) -> None:
    cache[:, :, 3 : 3 + update.shape[2]] = update + at.sum()


def _last_place(cache: Tensor, update: Tensor, at: Tensor) -> None:
    cache[:, :, -1] = update[:, :, 0] + at.sum()


def _copy_into_a_slice(cache: Tensor, update: Tensor, at: Tensor) -> None:
    cache.narrow(2, -1, 1).copy_(update + at.sum())


def _each_batch(cache: Tensor, update: Tensor, at: Tensor) -> None:
    cache[torch.arange(BATCH), :, at.expand(BATCH) + torch.tensor([0, 1])] = update[:, :, 0]


WRITES: dict[str, Write] = {
    "index_copy": _index_copy,
    "index_put": _index_put,
    "one place": _one_place,
    "slice": _slice,
    "last place": _last_place,
    "copy into a slice": _copy_into_a_slice,
    "each batch": _each_batch,
}
"""Ways to write one step that are in place where the target can."""


class Decoder(nn.Module):
    """Attention over caches that are its buffers; one step a call."""

    def __init__(self, write: Write = _index_copy) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.write = write
        self.project = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH).requires_grad_(False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(SHAPE))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        parts = self.project(x).view(x.shape[0], x.shape[1], 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        self.write(self.keys, key, at)
        self.write(self.values, value, at)
        seen = (torch.arange(STEPS) <= at[-1])[None, None, None]
        return nn.functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=seen)


class GivenCaches(nn.Module):
    """The same with caches that it is given."""

    def __init__(self, write: Write = _index_copy) -> None:
        super().__init__()
        self.write = write

    def forward(self, x: Tensor, at: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        self.write(keys, x, at)
        self.write(values, x * 2, at)
        return (keys * values).sum(2)


def step_inputs(at: int, batch: int = BATCH) -> tuple[Tensor, Tensor]:
    """Inputs of a decoder for one step."""
    return torch.randn(batch, 1, HEADS * WIDTH), torch.tensor([at])


def decoded(run: Callable[..., Tensor], model: nn.Module, steps: int, first: int = 0) -> None:
    """Both run so many steps, each from where the last ended."""
    for at in range(first, first + steps):
        given = step_inputs(at)
        # Attention in another order of sums: torch's defaults.
        torch.testing.assert_close(run(*given), model(*given))


class WholeCaches(TorchDispatchMode):
    """Names the ops that make or fill a tensor as large as a cache.

    Args:
        numel: The elements of a cache.
    """

    def __init__(self, numel: int = BATCH * HEADS * STEPS * WIDTH) -> None:
        super().__init__()
        self.numel = numel
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and made.numel() >= self.numel and made.is_floating_point():
            self.ops.append(func.overloadpacket.__name__)
        return made
