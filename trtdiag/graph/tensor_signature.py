"""Tensors that are what they seem, and whether those of a call are like those of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

_PLAIN = (torch.Tensor, torch.nn.Parameter)
Signature = tuple[object, ...]
"""Of each input of a run all that decides over it but memory and elements."""


def is_plain(tensor: object) -> bool:
    """Whether it is a tensor with elements that lie in memory: none of a tracer, and no view that negates them."""
    return type(tensor) in _PLAIN and not tensor.is_neg()  # type: ignore[attr-defined]


def signature_of(inputs: Sequence[object]) -> Signature | None:
    """The signature of inputs; ``None`` where one is no plain tensor."""
    found: list[object] = []
    try:
        for tensor in inputs:
            if not is_plain(tensor):
                return None
            on = tensor.get_device() if tensor.is_cuda else tensor.device  # type: ignore[attr-defined]
            found += (tensor.shape, tensor.stride(), tensor.dtype, on)  # type: ignore[attr-defined]
    except RuntimeError:  # sparse and nested tensors have no strides
        return None
    return tuple(found)


def check_like(tensors: Sequence[torch.Tensor]) -> Callable[..., bool]:
    """What tells whether as many arguments are tensors like these: of the same type, dtype, device, sizes and strides.

    They are asked in the mode of autograd that is on now; in another the answer is no.
    """
    guards = getattr(torch._C._dynamo.guards, "TensorGuards", None)  # noqa: SLF001 - of torch.compile: one call for all
    if guards is not None:
        return guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check  # type: ignore[no-any-return]
    like = signature_of(tensors)
    return lambda *given: signature_of(given) == like
