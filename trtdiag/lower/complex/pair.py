"""A complex tensor as two real ones, and the ops that are written with such pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload

from trtdiag.graph.operators import schema_name


@dataclass(frozen=True)
class Pair:
    """Real and imaginary part, of one shape and dtype: tensors, numbers, or what stands for them in a graph."""

    real: Any
    imag: Any


@dataclass(frozen=True)
class Call:
    """One call that is written with pairs.

    Attributes:
        op: The op.
        complex: Whether it returns complex numbers.
        dtype: Of the parts of what it returns, or of the result itself where that is real.
        device: Of what it returns.
        tables: Constant tensors that the call asked for (``transforms.py``).
    """

    op: OpOverload
    complex: bool
    dtype: torch.dtype
    device: torch.device
    tables: Sequence[Pair] = ()

    def real(self, /, **given: Any) -> Any:
        """The op itself, on real tensors; arguments as its schema names them."""
        return called(self.op, given)

    def pair(self, value: Any) -> Pair:
        """A value as a pair of this dtype: a pair, a tensor or a number; the imaginary part of what is real is zero."""
        if isinstance(value, Pair):
            return Pair(self.cast(value.real), self.cast(value.imag))
        if isinstance(value, Tensor):
            real = self.cast(value)
            return Pair(real, torch.zeros_like(real))
        return Pair(value.real, value.imag)

    def cast(self, value: Any) -> Any:
        """A tensor in the dtype of the result, numbers as they are."""
        if isinstance(value, Tensor) and value.dtype != self.dtype:
            return value.to(self.dtype)
        return value


Rule = Callable[..., Any]
"""From a ``Call`` and the arguments by name, complex ones as pairs, to what the op returns, which may be pairs, too."""

_F = TypeVar("_F", bound=Rule)
_RULES: dict[str, Rule] = {}


def on_pairs(*names: str) -> Callable[[_F], _F]:
    """Register what the ATen ops of these names (``add``), all overloads of each, become on pairs."""

    def register(rule: _F) -> _F:
        for name in names:
            if f"aten::{name}" in _RULES:
                raise ValueError(f"aten::{name} is written with pairs already")
            _RULES[f"aten::{name}"] = rule
        return rule

    return register


def rule_of(op: OpOverload) -> Rule | None:
    """What an op becomes on pairs; ``None`` where nothing is written for it."""
    return _RULES.get(schema_name(op))


def registered() -> dict[str, Rule]:
    """What is entered so far, sorted by ``schema_name``."""
    return dict(sorted(_RULES.items()))


def called(op: OpOverload, given: dict[str, Any]) -> Any:
    """Call an op with all of its arguments, by name: positional ones by position, as torch itself writes them."""
    arguments = op._schema.arguments
    places = [given[argument.name] for argument in arguments if not argument.kwarg_only]
    named = {argument.name: given[argument.name] for argument in arguments if argument.kwarg_only}
    return op(*places, **{name: value for name, value in named.items() if value is not None})


def map_parts(value: Any, of: Callable[[Any], Any]) -> Any:
    """``value`` with each pair, tensor and number in its lists replaced."""
    if isinstance(value, (list, tuple)):
        return [map_parts(item, of) for item in value]
    return of(value)
