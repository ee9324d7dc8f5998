"""Indices that are seen to be nowhere negative take no layers that count them from the front."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.harness.rows import thinned
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages

PLACES = torch.tensor([3, 0, 2])
FROM_THE_END = torch.tensor([3, -1, 2])


class Forward(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("places", PLACES)
        self.register_buffer("from_the_end", FROM_THE_END)

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        return self.function(x, index) + self.places[0] + self.from_the_end[1]


def _sorted(x: Tensor, index: Tensor) -> Tensor:
    return x[x[:, 0].argsort(descending=True)]


def _best(x: Tensor, index: Tensor) -> Tensor:
    return x[x[:, 1].topk(2).indices.flip(0)]


def _of_two(x: Tensor, index: Tensor) -> Tensor:
    one, other = x[:, 0].topk(3).indices, x[:, 1].topk(3).indices
    return x[torch.where(one > other, one, other)] + x[torch.cat([one, other])][:3]


SEEN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sorted": _sorted,
    "best": _best,
    "of two": _of_two,
    "nonzero": lambda x, index: x[(x[:, 0] > 0).nonzero()[:, 0]],
    "nonzero of nonzero": lambda x, index: x[x[:, 0].topk(3).indices[(x[:3, 1] > 0).nonzero()[:, 0]]],
}
NOT_SEEN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "given": lambda x, index: x[index],
    "moved": lambda x, index: x[x[:, 0].topk(3).indices - 1],
    "chosen with a given one": lambda x, index: x[torch.where(x[:3, 0] > 0, x[:, 0].topk(3).indices, index)],
}


def _kinds(function: Callable[[Tensor, Tensor], Tensor]) -> list[str]:
    dims = {"x": {0: Dim("n", min=4, max=31)}, "index": None}
    asked = (Forward(function), (torch.randn(7, 4), torch.tensor([-1, 3, 0])), {}, dims)
    options = CompileOptions(target="11.4", backend="reference", partition=PartitionOptions(min_segment_ops=1))
    found = compile_in_stages(asked, options)
    assert found.verification is not None
    assert found.verification.passed, found.verification
    (converted,) = found.converted
    return [placed.layer.kind for placed in converted.network.layers if placed.origin.op == "aten.index.Tensor"]


# Quick: the ends.
@thinned("name", SEEN, every=9)
def test_what_finds_places_gives_no_negative_ones(name: str) -> None:
    assert set(_kinds(SEEN[name])) == {"Gather"}


@pytest.mark.parametrize("name", NOT_SEEN)
def test_other_indices_are_counted_from_the_front(name: str) -> None:
    assert "Select" in _kinds(NOT_SEEN[name])
