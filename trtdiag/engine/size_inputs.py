"""Numbers that enter an engine, as tensors whose shape says them.

A number in the data of a tensor is lost while PyTorch traces: shapes that hang on it would become new symbols, and the
check that they are the old ones a wait for the device.  So a number travels as the shape of a tensor without elements.
Torch treats sizes 0 and 1 apart, by guards, so a dim that carries a number is 2 or more: ``n`` is ``[n - low + 2, 0]``,
where ``low`` is 0 or the least that ``n`` can be, and where it has no least ``[max(n, 0) + 2, max(-n, 0) + 2, 0]``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from trtdiag.engine.manifest import EngineInput

_SMALLEST_DIM = 2
_UNBOUNDED = -(2**62)
"""A least number at or below this is no end: adding it would leave int64."""


def _now(function: Callable[..., Any], *operands: Any) -> Any:
    return function(*operands)


def read_size(port: EngineInput, shape: tuple[Any, ...] | torch.Size, call: Callable[..., Any] = _now) -> Any:
    """The number that the shape of a carrier says: an int, or a SymInt or node while tracing."""
    low = _low(port)
    if low is None:
        return call(operator.sub, shape[0], shape[1])
    return call(operator.add, shape[0], low - _SMALLEST_DIM)


def carrier_shape(port: EngineInput, number: Any, call: Callable[..., Any] = _now) -> tuple[Any, ...]:
    """The shape that says a number; ``call(function, *operands)`` makes the calls that it takes."""
    low = _low(port)
    if low is not None:
        return call(operator.add, number, _SMALLEST_DIM - low), 0
    positive = call(torch.sym_max, number, 0)
    negative = call(torch.sym_max, call(operator.neg, number), 0)
    return call(operator.add, positive, _SMALLEST_DIM), call(operator.add, negative, _SMALLEST_DIM), 0


def carrier_rank(port: EngineInput) -> int:
    """How many dims a carrier has."""
    return 3 if _low(port) is None else 2


def _low(port: EngineInput) -> int | None:
    """0 or the least number that may enter; ``None`` where it has no end."""
    least = min(0, port.profile[0].min)
    return None if least <= _UNBOUNDED else least
