"""Small models for tests of compile and verify."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from trtdiag.convert import registry
from trtdiag.convert.call import Call
from trtdiag.network.layers.activation import ActivationType
from trtdiag.network.value import Value

Asked = tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 7)
        self.second = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(x))
        return self.second(y.view(x.shape[0], -1, 7)) * 2


def mlp() -> Asked:
    """Batch 1..9, steps 2..33."""
    torch.manual_seed(0)
    dims = {"x": {0: Dim("batch", min=1, max=9), 1: Dim("steps", min=2, max=33)}}
    return Mlp().eval(), (torch.randn(4, 6, 5),), {}, dims


def unbounded() -> Asked:
    """A dim without an upper end: an ERROR for an engine."""
    module, args, kwargs, _ = mlp()
    return module, args, kwargs, {"x": {0: Dim("batch", min=1), 1: Dim("steps", min=2)}}


def refused() -> Asked:
    """torch.export refuses the dims that are asked for."""

    class Even(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(x.shape[0] // 2, 2, 5)

    return Even(), (torch.randn(6, 5),), {}, {"x": {0: Dim("n", min=2, max=17)}}


def exported(asked: Asked) -> ExportedProgram:
    """The program of what a factory gives."""
    module, args, kwargs, dims = asked
    return export(module, args, kwargs, dynamic_shapes=dims)


@cache
def exported_mlp() -> ExportedProgram:
    """Shared between tests, which do not change it."""
    return exported(mlp())


@cache
def saved(factory: Callable[[], Asked]) -> bytes:
    """The file of the program of a factory: one export for all tests that begin with such a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt2"
        torch.export.save(exported(factory()), path)
        return path.read_bytes()


def _wrong_relu(call: Call) -> Value:
    return call.write.activation(ActivationType.TANH, call.tensor("self"))


def registry_with_wrong_relu() -> Mapping[str, registry.Converter]:
    """The converters, with one that writes tanh for relu."""
    found = dict(registry.converters())
    found["aten.relu.default"] = replace(found["aten.relu.default"], run=_wrong_relu)
    return found
