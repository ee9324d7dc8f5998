"""Runs the samples that torch has for an op, and says how many were converted and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.convert import op_check
from tests.convert.op_check import check_op
from tests.convert.op_samples import Sample, opinfo_samples

FLOATS = (torch.float32, torch.float16)
NUMBERS = (*FLOATS, torch.int64)
ALL = (*NUMBERS, torch.bool)
GREATEST = 40
"""Of dynamic dims: small enough that every element may meet every other, and more than any sample has."""


@dataclass(frozen=True)
class Sampled:
    """An overload, the names of its samples in torch, and what may be refused of them, by code."""

    op: str
    infos: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...] = ALL
    limits: tuple[str, ...] = ()
    takes: Callable[[Sample], bool] = lambda sample: True
    dynamic: bool = True
    compare: Callable[[Any, Any], None] | None = None

    def cases(self) -> list[Any]:
        """Each dtype, static and dynamic; what another dtype shows already is for the long run only."""
        found = []
        for dtype in self.dtypes:
            for dynamic in (False, True) if self.dynamic else (False,):
                another = torch.float32 in self.dtypes and dtype is not torch.float32
                # With dynamic dims the sizes of the sample itself are compared, too.
                shown = dtype is torch.float16 or (dtype is torch.bool and torch.int64 in self.dtypes)
                repeats = (dynamic or shown) if another else (self.dynamic and not dynamic)
                words = (self.op, str(dtype).removeprefix("torch."), "dynamic" if dynamic else "static")
                marks = [pytest.mark.slow] if repeats else []
                found.append(pytest.param((self, dtype, dynamic), id="-".join(words), marks=marks))
        return found


def run_samples(
    case: tuple[Sampled, torch.dtype, bool], monkeypatch: pytest.MonkeyPatch, *, target: str = "11.4", most: int
) -> None:
    """Convert and compare each sample; at least one must be taken, and nothing refused but what may be."""
    sampled, dtype, dynamic = case
    monkeypatch.setattr(op_check, "GREATEST", GREATEST)
    compared = 0
    for sample in opinfo_samples(sampled.op, sampled.infos, dtype, most if not dynamic else most - 2):
        if not sampled.takes(sample) or (dynamic and _most(sample) > GREATEST - 7):
            continue
        found = check_op(sample.op, sample.args, sample.kwargs, dynamic=dynamic, target=target, compare=sampled.compare)
        codes = {limit.code for limit in found.limits.values()}
        assert codes <= set(sampled.limits), f"{sample}: {found.limits}"
        compared += not codes
    assert compared


def _most(sample: Sample) -> int:
    tensors = [leaf for leaf in pytree.tree_leaves((sample.args, sample.kwargs)) if isinstance(leaf, torch.Tensor)]
    return max((size for tensor in tensors for size in tensor.shape), default=0)
