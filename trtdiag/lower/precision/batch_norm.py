"""A batch norm with constant statistics as a scale and a shift for each channel, computed in double precision."""

from __future__ import annotations

import torch
from torch.fx import Node

from trtdiag.lower.precision.constants import Constants
from trtdiag.lower.precision.floats import argument, maker, name_of, tensors

_CONVOLUTIONS = frozenset({"convolution", "conv1d", "conv2d", "conv3d"})


def scale_and_shift(node: Node, constants: Constants, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return what to multiply by and to add, in half precision; ``None`` where it does not hold them.

    Args:
        node: A batch norm whose weights and statistics are constants.
        constants: Their values.
        dtype: The half precision.

    Shapes: ``(C, 1, ..., 1)``, to be broadcast over an input ``(N, C, ...)``.
    """
    found = _exact(node, constants)
    source = node.args[0]
    if found is None or not isinstance(source, Node):
        return None
    shape = (-1, *(1,) * (tensors(source)[0].dim() - 2))
    return _held(found[0].reshape(shape), found[1].reshape(shape), dtype)


def kernel_and_bias(
    node: Node, convolution: Node, kernel: Node, bias: Node | None, constants: Constants, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the kernel and bias of a convolution that does what the batch norm behind it does, too.

    ``None`` where they are no constants, or half precision does not hold them.

    Args:
        node: The batch norm.
        convolution: What it reads, and nothing else does.
        kernel: The convolution's kernel as the program has it.
        bias: Its bias.
        constants: Their values.
        dtype: The half precision.
    """
    found, weights = _exact(node, constants), _values(kernel, constants)
    if found is None or weights is None or name_of(convolution) not in _CONVOLUTIONS:
        return None
    if argument(convolution, "transposed") is True:
        return None
    added: torch.Tensor | None = torch.zeros((), dtype=torch.float64) if bias is None else _values(bias, constants)
    scale, shift = found
    if added is None:
        return None
    added = added.to(scale.device)
    return _held(weights * scale.reshape(-1, *(1,) * (weights.dim() - 1)), shift + added * scale, dtype)


def _exact(node: Node, constants: Constants) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Scale and shift of each channel in double precision."""
    weight, bias, mean, variance = (_values(each, constants) for each in node.args[1:5])
    if mean is None or variance is None:
        return None
    eps = argument(node, "eps") or argument(node, "epsilon") or 0.0
    scale = torch.rsqrt(variance + eps)  # type: ignore[operator]  # eps is a number in every schema
    if weight is not None:
        scale = scale * weight
    return scale, -mean * scale if bias is None else bias - mean * scale


def _held(first: torch.Tensor, second: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor] | None:
    made = first.to(dtype), second.to(dtype)
    return made if all(bool(each.isfinite().all()) for each in made) else None


def returned(node: Node) -> Node | None:
    """Return the node that yields the normalised tensor; ``None`` where the statistics are read as well."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return node
    elements = list(node.users)
    only = elements[0] if len(elements) == 1 else None
    return only if only is not None and maker(only) is node and only is not node and only.args[1] == 0 else None


def _values(each: object, constants: Constants) -> torch.Tensor | None:
    tensor = constants.value(each) if isinstance(each, Node) else None
    return None if tensor is None else tensor.detach().to(torch.float64)
