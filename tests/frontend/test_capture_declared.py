"""dynamic_shapes laid beside the inputs: forms in which ``forward(*args)`` is declared."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim, export

from trtdiag.frontend.declared_dims import declared_dims
from trtdiag.frontend.factory import Recipe

BATCH, SEQ = Dim("batch", min=2, max=32), Dim("seq", min=4, max=64)
X = torch.zeros(3, 5)


class Rest(torch.nn.Module):
    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return torch.cat([arg.sum(1) for arg in args])


class FirstAndRest(torch.nn.Module):
    def forward(self, x: torch.Tensor, *args: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.sum(1), *(arg.sum(1) for arg in args)])


@pytest.mark.parametrize(
    ("module", "args", "names", "spec", "expected"),
    [
        (Rest(), (X,), ["*"], (({0: BATCH},),), [{0: "batch"}]),
        (Rest(), (X,), ["*"], (((BATCH, SEQ),),), [{0: "batch", 1: "seq"}]),
        (Rest(), (X, X), ["*", "*"], (({0: BATCH}, {1: SEQ}),), [{0: "batch"}, {1: "seq"}]),
        (Rest(), (X, X), ["*", "*"], (({0: BATCH}, None),), [{0: "batch"}, {}]),
        (FirstAndRest(), (X, X), ["x", "*"], ({1: SEQ}, ({0: BATCH},)), [{1: "seq"}, {0: "batch"}]),
        (FirstAndRest(), (X, X, X), ["x", "*", "*"], (None, ({0: BATCH}, {1: SEQ})), [{}, {0: "batch"}, {1: "seq"}]),
    ],
)
def test_declarations_of_varargs(
    module: torch.nn.Module, args: tuple[torch.Tensor, ...], names: list[str], spec: Any, expected: list[dict[int, str]]
) -> None:
    export(module, args, dynamic_shapes=spec)  # torch takes this form
    recipe = Recipe(module, args, {}, spec)
    assert recipe.parameter_names() == names
    found = declared_dims(recipe)
    assert [{index: declared.text for index, declared in dims.items()} for dims in found] == expected
