"""What an op was decomposed into, free of any graph: the same steps are replayed wherever the op occurs again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode


@dataclass(frozen=True, slots=True)
class Ref:
    """The value at a position: inputs of the template first, then its steps."""

    index: int


@dataclass(frozen=True, slots=True)
class Step:
    """One call; Refs in ``args`` and ``kwargs`` stand for earlier values, ``val`` is its ``meta["val"]``."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    val: Any


@dataclass(frozen=True, slots=True)
class Template:
    """The steps of a decomposition over ``inputs`` values; ``result`` holds Refs in the form of the op's return."""

    inputs: int
    steps: tuple[Step, ...]
    result: Any


class UntraceableError(Exception):
    """An op that cannot be decomposed here; the text is the reason."""


def replaced(value: Any, swap: Callable[[Any], Any], kind: type) -> Any:
    """``value`` with each ``kind`` in its lists, tuples, dicts and slices swapped."""
    if isinstance(value, kind):
        return swap(value)
    if isinstance(value, (list, tuple)):
        items = [replaced(item, swap, kind) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: replaced(item, swap, kind) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(replaced(part, swap, kind) for part in (value.start, value.stop, value.step)))
    return value


def filled(value: Any, values: Sequence[Any]) -> Any:
    """``value`` with the value at its position in the place of each Ref."""
    return replaced(value, lambda ref: values[ref.index], Ref)


def gathered(value: Any, kind: type) -> list[Any]:
    """Each ``kind`` in ``value``, in order, repeats included."""
    found: list[Any] = []
    replaced(value, lambda item: found.append(item) or item, kind)  # type: ignore[func-returns-value]  # used as 'and then'
    return found


def with_refs(value: Any, kind: type) -> tuple[list[Any], Any]:
    """Each ``kind`` in ``value``, in order, and ``value`` with ``Ref(i)`` in the place of the i-th of them."""
    places = itertools.count()
    return gathered(value, kind), replaced(value, lambda _: Ref(next(places)), kind)


class Keys:
    """Calls as dictionary keys: equal for equal ops, arguments, dtypes and symbolic sizes."""

    def __init__(self) -> None:
        self._of_vals: dict[int, Any] = {}
        self._held: list[Any] = []

    def call(self, target: Any, args: Any, kwargs: Any, vals: Sequence[Any]) -> Any:
        """The key of ``target(*args, **kwargs)`` with Refs for the inputs, whose values are ``vals``."""
        return target, frozen(args), frozen(kwargs), tuple(self.val(val) for val in vals)

    def val(self, val: Any) -> Any:
        """One recorded value's part of a key."""
        key = self._of_vals.get(id(val))
        if key is None:
            key = self._val(val)
            self._of_vals[id(val)] = key
            self._held.append(val)  # an id stands for its object only as long as that lives
        return key

    def _val(self, val: Any) -> Any:
        if isinstance(val, torch.Tensor):
            if val.layout != torch.strided or val.is_quantized:
                raise UntraceableError(f"a {val.layout} tensor has no symbolic sizes to trace with")
            sizes = tuple(map(written_size, val.shape))
            return val.dtype, val.device, sizes, tuple(map(written_size, val.stride()))
        if isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return "symbolic", type(val).__name__, val.node.expr
        raise UntraceableError(f"an input of it is a {type(val).__name__}")


def frozen(value: Any) -> Any:
    """A plain argument as a part of a key."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, frozen(item)) for key, item in value.items())
    if isinstance(value, slice):
        return "slice", frozen(value.start), frozen(value.stop), frozen(value.step)
    # 1, 1.0 and True are equal but choose different dtypes; 0.0 and -0.0 are equal but divide differently.
    return (type(value).__name__, repr(value)) if isinstance(value, (bool, int, float, complex)) else value


def written_size(size: int | torch.SymInt) -> Any:
    """A size as it is written: its expression where it is symbolic; comparing those adds no guard."""
    return size.node.expr if isinstance(size, torch.SymInt) else size


def stand_in(val: Any, mode: FakeTensorMode) -> Any:
    """A value like ``val`` but an object of its own, so that equal inputs of one call stay apart."""
    if isinstance(val, torch.Tensor):
        with mode:
            return torch.empty_strided(val.shape, val.stride(), dtype=val.dtype, device=val.device)
    return val
