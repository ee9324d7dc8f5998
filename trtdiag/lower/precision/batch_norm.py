"""A batch norm with constant statistics as a scale and a shift for each channel, computed in double precision."""

from __future__ import annotations

import torch
from torch.fx import Node

from trtdiag.lower.precision.constants import Constants
from trtdiag.lower.precision.floats import argument, maker, tensors


def scale_and_shift(node: Node, constants: Constants, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return what to multiply by and to add, in half precision; ``None`` where it does not hold them.

    Args:
        node: A batch norm whose weights and statistics are constants.
        constants: Their values.
        dtype: The half precision.

    Shapes: ``(C, 1, ..., 1)``, to be broadcast over an input ``(N, C, ...)``.
    """
    weight, bias, mean, variance = (_values(each, constants) for each in node.args[1:5])
    source = node.args[0]
    if mean is None or variance is None or not isinstance(source, Node):
        return None
    eps = argument(node, "eps") or argument(node, "epsilon") or 0.0
    scale = torch.rsqrt(variance + eps)  # type: ignore[operator]  # eps is a number in every schema
    if weight is not None:
        scale = scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    shape = (-1, *(1,) * (tensors(source)[0].dim() - 2))
    made = scale.to(dtype).reshape(shape), shift.to(dtype).reshape(shape)
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
