"""Numbers that enter an engine, as tensors whose shape says them.

A number in the data of a tensor is lost while PyTorch traces: shapes that hang on it would become new symbols, and the
check that they are the old ones a wait for the device.  So a number travels as the shape of a tensor without elements:
``n`` as ``[n, 0]``, and where it may be negative as ``[max(n, 0), max(-n, 0), 0]``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from trtdiag.runtime.size_calls import call_now

_PLAIN_RANK = 2
_SIGNED_RANK = 3


def read_size(carrier: torch.Tensor) -> Any:
    """The number that a tensor's shape says: an int, or a SymInt while tracing; ``None`` for any other tensor."""
    if carrier.dim() == _PLAIN_RANK:
        return carrier.shape[0]
    if carrier.dim() == _SIGNED_RANK:
        return carrier.shape[0] - carrier.shape[1]
    return None


def carrier_shape(number: Any, *, signed: bool, call: Callable[..., Any] = call_now) -> tuple[Any, ...]:
    """The shape that says a number; ``call(function, *operands)`` makes the calls that it takes."""
    if not signed:
        return number, 0
    return call(torch.sym_max, number, 0), call(torch.sym_max, call(operator.neg, number), 0), 0
