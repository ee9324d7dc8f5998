"""What convolutions and poolings share: windows that move over the dims after batch and channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import require
from trtdiag.shapes.op_call import Shape
from trtdiag.symbolic import Expr, add, floordiv, to_text


def require_window(dims: int, least: int, **attributes: tuple[int, ...]) -> None:
    """Refuse attributes that are not ``dims`` numbers of at least ``least``."""
    for name, numbers in attributes.items():
        fits = len(numbers) == dims and all(number >= least for number in numbers)
        require(fits, f"{name} is {numbers}; it must be {dims} numbers of {least} or more")


def window_count(size: Expr, *, padding: int, extent: int, stride: int, round_up: bool = False) -> Expr:
    """How many windows of ``extent`` elements fit into ``size`` elements with ``padding`` more."""
    return add(floordiv(add(size, padding - extent + (stride - 1 if round_up else 0)), stride), 1)


def require_output(sizes: Shape, facts: ShapeConstraints) -> None:
    """Refuse an output that is empty or negative for all sizes."""
    for size in sizes:
        require(not facts.never_at_least(size, 1), f"the window does not fit: the output has size {to_text(size)}")


def padded(x: torch.Tensor, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> torch.Tensor:
    """``x`` with elements added at both ends of its last dims."""
    pairs = [number for pair in zip(reversed(before), reversed(after), strict=True) for number in pair]
    return F.pad(x, pairs, value=value) if any(pairs) else x
