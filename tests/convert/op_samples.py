"""Samples of ops: torch's own (OpInfo), as calls of ATen overloads."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import SEED
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class Sample:
    """One call of an overload."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        def short(value: Any) -> Any:
            return f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else value

        return f"{self.op}({pytree.tree_map(short, self.args)}, {pytree.tree_map(short, self.kwargs)})"


def overload(name: str) -> OpOverload | None:
    """The op of a name such as ``aten.softmax.int``; ``None`` where this torch has none."""
    namespace, packet, which = name.split(".")
    found = getattr(getattr(getattr(torch.ops, namespace), packet, None), which, None)
    return found if isinstance(found, OpOverload) else None


class _Recorder(TorchDispatchMode):
    """Notes every call of one overload."""

    def __init__(self, op: OpOverload) -> None:
        super().__init__()
        self.op = op
        self.calls: list[Sample] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is self.op:
            self.calls.append(Sample(func, _copied(args), _copied(kwargs or {})))
        return func(*args, **(kwargs or {}))


def _copied(value: Any) -> Any:
    return pytree.tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v, value)


@lru_cache(maxsize=1)
def _by_name() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for info in op_db:
        found.setdefault(info.name, []).append(info)
    return found


def _seeded(samples: Iterable[Any]) -> Iterator[Any]:
    """Each sample with the same seed before it, as ``OpInfo.sample_inputs`` does it.

    That also looks through the whole stack for a unittest, each time, which took most of the time of these tests.
    """
    each = iter(samples)
    while True:
        random.seed(SEED)
        np.random.seed(SEED)
        torch.default_generator.manual_seed(SEED)  # ``torch.manual_seed`` keeps a traceback for GPUs
        try:
            sample = next(each)
        except StopIteration:
            return
        yield sample


def opinfo_samples(name: str, infos: tuple[str, ...], dtype: torch.dtype, most: int) -> Iterator[Sample]:
    """Calls of the overload ``name`` that the samples of these OpInfos make, each shape once, at most ``most``.

    A sample's arguments are given to the overload itself where they fit its schema; else the overload is called by
    what the sample's function dispatches to.
    """
    op = overload(name)
    if op is None:
        return
    seen: set[str] = set()
    count = 0
    for info_name in infos:
        for info in _by_name().get(info_name, ()):
            if dtype not in info.dtypes:
                continue
            for sample in _seeded(info.sample_inputs_func(info, "cpu", dtype, False)):
                for call in _calls(op, info, sample):
                    text = str(call)
                    if text in seen:
                        continue
                    seen.add(text)
                    yield call
                    count += 1
                    if count >= most:
                        return


def _calls(op: OpOverload, info: Any, sample: Any) -> list[Sample]:
    recorder = _Recorder(op)
    try:
        with recorder, torch.no_grad():
            info.op(sample.input, *sample.args, **sample.kwargs)
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        return []
    if recorder.calls:
        return recorder.calls
    args = (_copied(sample.input), *_copied(tuple(sample.args)))
    kwargs = _copied(dict(sample.kwargs))
    try:
        with torch.no_grad():
            op(*_copied(args), **_copied(kwargs))
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        return []
    return [Sample(op, args, kwargs)]
