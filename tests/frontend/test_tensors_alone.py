"""An input of a class that flattens to its tensors alone, as transformers' exporters register caches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from trtdiag.frontend.inputs import user_names


class Cache:
    def __init__(self, held: list[Any]) -> None:
        self.held = held


def _flat(cache: Cache) -> tuple[list[Any], None]:
    return [each for each in cache.held if isinstance(each, Tensor)], None


pytree.register_pytree_node(
    Cache,
    _flat,
    lambda leaves, _: Cache(list(leaves)),
    flatten_with_keys_fn=lambda cache: ([(pytree.SequenceKey(i), t) for i, t in enumerate(_flat(cache)[0])], None),
    serialized_type_name="tests.Cache",
)


class Step(nn.Module):
    def forward(self, x: Tensor, past: Cache, more: dict[str, Tensor]) -> Tensor:
        return torch.cat([past.held[0], past.held[1] + x.sum() + more["bias"]], 1)


def test_its_tensors_are_inputs_by_their_place() -> None:
    rows = torch.randn(3, 5)
    dims = {"x": {0: Dim("n", max=9)}, "past": [{1: Dim.AUTO}, {1: Dim.AUTO}], "more": {"bias": None}}
    args = torch.randn(4), Cache([rows, rows + 1]), {"bias": torch.ones(1)}
    program = torch.export.export(Step(), args, dynamic_shapes=dims)
    assert user_names(program) == ["x", "past[0]", "past[1]", "more['bias']"]
