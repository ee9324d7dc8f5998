"""Node values at one point of the ranges: sizes as plain numbers, so that ops can be re-run without symbolic shapes.

Re-running an op on symbolic fake tensors costs about a millisecond and may record new guards in the program's own
ShapeEnv; on sizes that are numbers it is an order of magnitude cheaper and touches nothing of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import CustomObjArgument

from trtdiag.frontend.fake_call_cache import FakeCallCache
from trtdiag.symbolic import Condition, Expr, ExpressionError, evaluate, free_symbols, from_sympy


@dataclass(frozen=True)
class TensorAt:
    """A tensor's dtype, sizes, strides and device at one point."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    device: torch.device

    def agrees(self, other: object) -> bool:
        """Whether ``other`` has the same dtype and sizes; strides may differ between kernels."""
        return isinstance(other, TensorAt) and self.dtype == other.dtype and self.sizes == other.sizes

    def __str__(self) -> str:
        return _typed(self.dtype, self.sizes)


class UnplaceableError(Exception):
    """A value that has no meaning at one point (a symbol without a number)."""


class Point:
    """A number for every symbol, and the values of nodes at it."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = dict(numbers)
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.mode.cache_enabled = False  # a call is run once: to note its result takes as long as the call
        self.calls = FakeCallCache(self.mode)
        self.tensor = cache(self._tensor)
        self._number = cache(self._evaluated)

    def place(self, value: Any) -> Any:
        """``value`` (a node's ``meta["val"]`` or an argument) with numbers for symbols and TensorAt for tensors."""
        if isinstance(value, torch.Tensor):
            if value.layout != torch.strided or value.is_quantized:
                raise UnplaceableError(f"a {value.layout} tensor")
            sizes = tuple(self._size(s) for s in value.shape)
            return TensorAt(value.dtype, sizes, tuple(self._size(s) for s in value.stride()), value.device)
        if isinstance(value, (torch.SymInt, torch.SymBool)):
            return self._number(value.node.expr)
        if isinstance(value, torch.SymFloat):
            raise UnplaceableError("a symbolic float")
        if isinstance(value, CustomObjArgument):
            raise UnplaceableError("an object that is no tensor")
        if isinstance(value, (list, tuple)):
            return tuple(self.place(item) for item in value)
        if isinstance(value, dict):
            return tuple((key, self.place(item)) for key, item in value.items())
        return value

    def _tensor(self, at: TensorAt) -> torch.Tensor:
        """A fake tensor of that shape, shared between uses."""
        with self.mode:
            return torch.empty_strided(at.sizes, at.strides, dtype=at.dtype, device=at.device)

    def _size(self, size: int | torch.SymInt) -> int:
        return int(self._number(size.node.expr)) if isinstance(size, torch.SymInt) else size

    def _evaluated(self, expr: Any) -> int | bool:
        try:
            ours: Expr | Condition = from_sympy(expr)
        except ExpressionError as error:
            raise UnplaceableError(str(error)) from error
        missing = free_symbols(ours) - self._numbers.keys()
        if missing:
            raise UnplaceableError(f"no number for {', '.join(sorted(missing))}")
        number = evaluate(ours, self._numbers)
        return number if isinstance(number, bool) else int(number)


def same(left: Any, right: Any) -> bool:
    """Whether two placed values agree in structure, dtypes, sizes and numbers."""
    if isinstance(left, TensorAt):
        return left.agrees(right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right
    return type(left) is type(right)


def _typed(dtype: torch.dtype, sizes: Iterable[object]) -> str:
    return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, sizes))}]"


def spell(value: Any) -> str:
    """A recorded or placed value as text: ``float32[s77, 3]``, ``float32[2, 3]``."""
    if isinstance(value, torch.Tensor):
        return _typed(value.dtype, value.shape)
    if isinstance(value, (list, tuple)):
        return f"({', '.join(spell(item) for item in value)})"
    return str(value)
