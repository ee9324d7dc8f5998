"""Whether a model gives the same as the program that was made of it: torch traces no path of its own for 0 and 1."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import torch
from torch.utils import _pytree as pytree

RELATIVE = 2e-3
"""Of the largest value.  Own choice: float32 sums in another order are off by less than 1e-4, float16 ones by 1e-3;
another path is off by more than a tenth, or gives another shape."""


def difference(program: Any, model: Any) -> str:
    """How two results differ, in words; empty where they are the same.

    Values that are no tensors and no numbers are not looked at.
    """
    for one, other in zip_longest(_compared(program), _compared(model)):
        if one is None or other is None:
            return "another number of outputs"
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            if isinstance(one, torch.Tensor) is not isinstance(other, torch.Tensor) or one != other:
                return f"{_shown(one)} in the place of {_shown(other)}"
            continue
        if one.shape != other.shape or one.dtype is not other.dtype:
            return f"{_shown(one)} in the place of {_shown(other)}"
        if not _close(one, other):
            return "other values"
    return ""


def _compared(result: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor | int | float)]


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not one.is_floating_point() and not one.is_complex():
        return torch.equal(one, other)
    wide = torch.complex128 if one.is_complex() else torch.float64
    first, second = one.detach().to(wide), other.detach().to(wide)
    scale = float(second.abs().nan_to_num(posinf=0.0).max()) if second.numel() else 0.0
    return torch.allclose(first, second, rtol=0, atol=RELATIVE * max(scale, 1e-3), equal_nan=True)


def _shown(value: Any) -> str:
    return f"an output of {list(value.shape)}" if isinstance(value, torch.Tensor) else str(value)
