"""The answer to a real error of the installed torch is exported with, and runs at both ends of what it admits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.nn import functional

from tests.harness.rows import thinned
from trtdiag.dims.compare_plans import values_of
from trtdiag.fixdims.error_text.from_text import fix_text


class Traced(nn.Module):
    """A module of one function."""

    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def symbolic_modulus(x: Tensor) -> Tensor:
    return x + 1 if x.shape[1] % (x.shape[1] - 1) != 0 else x - 1


def windows(x: Tensor) -> Tensor:
    padded = functional.pad(x, (0, (8 - x.shape[1] % 8) % 8))
    return padded.view(padded.shape[0], padded.shape[1] // 8, 8).sum(2)


def halves(x: Tensor) -> Tensor:
    first, second = x.chunk(2, 1)
    return torch.cat([first * 2, second * 3], 1)


def branches(x: Tensor) -> Tensor:
    return torch.cat([x, x[:, 1:]], 1) if x.shape[1] // 3 != 5 and x.shape[1] * x.shape[1] > 100 else x


def bounded(x: Tensor) -> Tensor:
    return x + 1 if max(1, x.shape[1] // 7) <= 9 else x


def odd(x: Tensor) -> Tensor:
    return x[:, ::2] if x.shape[1] % 2 == 1 else x


def sixths(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1] // 6, 6)


# Quick: the ends and each third; answers to texts from the wild are judged in test_from_text_truth.py.
@thinned(
    ("forward", "size"),
    [(symbolic_modulus, 4), (windows, 48), (halves, 16), (branches, 40), (bounded, 40), (odd, 11), (sixths, 18)],
    every=9,
)
def test_the_answer_exports_and_runs_at_its_ends(forward: Callable[[Tensor], Tensor], size: int) -> None:
    example = (torch.zeros(2, size),)
    with pytest.raises(Exception, match="Constraints violated") as failed:
        export(Traced(forward), example, dynamic_shapes={"x": {1: Dim("t", max=3001)}}, strict=False)
    fix = fix_text(str(failed.value))
    made: dict[str, Any] = {}
    exec(fix.code, made)
    program = export(Traced(forward), example, dynamic_shapes=made["dynamic_shapes"], strict=False)
    admitted = values_of(fix.plan.leaves["x.shape[1]"], fix.plan)
    assert admitted is not None
    for end in (admitted.at_least(2), admitted.max):  # sizes below 2 are not in the text
        assert end is not None
        x = torch.zeros(2, end)
        assert program.module()(x).shape == forward(x).shape
