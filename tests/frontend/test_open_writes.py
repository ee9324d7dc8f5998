"""Writes at an index that only data decide: what is advised keeps the index open, and exports."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from trtdiag.fixdims.fix import Outcome
from trtdiag.fixdims.run import fix_dims


class Cache(nn.Module):
    """Writes a row where a tensor says, as caches of decoders do."""

    def forward(self, cache: Tensor, x: Tensor, position: Tensor) -> Tensor:
        cache = cache.clone()
        cache[:, position] = x
        return cache


class Open(nn.Module):
    """The same, as it is advised."""

    def forward(self, cache: Tensor, x: Tensor, position: Tensor) -> Tensor:
        cache = cache.clone()
        cache[:, position[None]] = x[:, None]
        return cache


class Ring(nn.Module):
    """Adds to the row of a counter."""

    def forward(self, cache: Tensor, x: Tensor, position: Tensor) -> Tensor:
        cache = cache.clone()
        cache[(position + 1) % 3] += x
        return cache


class Two(nn.Module):
    def forward(self, cache: Tensor, x: Tensor, position: Tensor) -> Tensor:
        cache = cache.clone()
        cache[position, position] = x[0]
        return cache


ARGS = torch.randn(3, 16, 6), torch.randn(3, 6), torch.tensor(4)
BATCH = {0: Dim("b", min=1, max=8)}
ASKED = (BATCH, BATCH, None)


@pytest.mark.parametrize(
    ("model", "x", "written"),
    [
        (Cache(), ARGS[1], "cache[:, position[None]] = ...  # in place of cache[:, position] = x; "),
        (Ring(), torch.randn(16, 6), "cache[((position + 1) % 3)[None]] += ...  # in place of cache[(position + 1) % "),
        (Two(), ARGS[1], "torch._check("),
    ],
    ids=["rows", "a counter", "two"],
)
def test_an_index_of_a_write_stays_open(model: nn.Module, x: Tensor, written: str) -> None:
    fix = fix_dims(model, (ARGS[0], x, ARGS[2]), dynamic_shapes=(None, None, None))
    assert fix.checks[0].code.startswith(written)
    if not isinstance(model, Two):
        assert "a write takes a number for its index, and a tensor with a dim as it is" in fix.checks[0].note


def test_what_is_advised_exports_and_gives_the_same() -> None:
    fix = fix_dims(Open(), ARGS, dynamic_shapes=ASKED)
    assert fix.proven
    assert fix.outcome is Outcome.UNCHANGED
    program = fix.program.module()
    for batch, position in ((1, 0), (5, 13), (8, 15)):
        args = torch.randn(batch, 16, 6), torch.randn(batch, 6), torch.tensor(position)
        assert torch.equal(program(*args), Cache()(*args))
