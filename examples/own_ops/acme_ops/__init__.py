"""Ops of one's own: a gate as large language models have it, and a sum that counts what it leaves out."""

from __future__ import annotations

import torch


@torch.library.custom_op("acme::swiglu", mutates_args=())
def swiglu(x: torch.Tensor, limit: float = 7.0) -> torch.Tensor:
    """The first half of the last dim, by SiLU and at most ``limit``, times the second half."""
    gate, value = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate).clamp(max=limit) * value


@swiglu.register_fake
def _(x: torch.Tensor, limit: float = 7.0) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


@torch.library.custom_op("acme::masked_sum", mutates_args=())
def masked_sum(x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum over the last dim where ``mask`` is true, and the number of places where it is not."""
    return torch.where(mask, x, 0).sum(-1), (~mask).sum(-1, dtype=torch.int32)


@masked_sum.register_fake
def _(x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    for one, other in zip(x.shape, mask.shape, strict=True):
        torch._check(one == other)  # noqa: SLF001 - documented; what a converter may rely on
    return x.new_empty(x.shape[:-1]), x.new_empty(x.shape[:-1], dtype=torch.int32)
