"""Backends that build something else than their network, in the place of a TensorRT that computes a layer wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from trtdiag.engine import backend as registry
from trtdiag.engine.backend import Backend, Profile
from trtdiag.engine.build_watch import Watch
from trtdiag.network import Network, Placed
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.options import CompileOptions
from trtdiag.targets import Target

HOME = "tests.verification.faulty_backend"
Alter = Callable[[Network], Network]


class Faulty:
    """A backend that hands an altered network to another; ``built`` counts what it built."""

    def __init__(self, inner: Backend, alter: Alter) -> None:
        self.name, self.device = "faulty", inner.device
        self._inner, self._alter = inner, alter
        self.built: list[Network] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def build(
        self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch
    ) -> bytes | bytearray:
        self.built.append(network)
        return self._inner.build(self._alter(network), profile, options, target, watch)


CURRENT: list[Faulty] = []


def backend() -> Faulty:
    return CURRENT[-1]


def register(patch: pytest.MonkeyPatch, inner: Backend, alter: Alter) -> Faulty:
    """Make it the backend ``faulty`` for one test."""
    homes: Mapping[str, str] = {**registry._HOMES, "faulty": HOME}
    patch.setattr(registry, "_HOMES", homes)
    made = Faulty(inner, alter)
    patch.setattr(f"{HOME}.CURRENT", [made])
    return made


def with_other_activation(network: Network, node: str = "") -> Network:
    """Sigmoid in the place of every tanh, or of that of one node."""

    def changed(placed: Placed) -> Placed:
        layer = placed.layer
        wrong = isinstance(layer, Activation) and layer.op is ActivationType.TANH and node in ("", placed.origin.node)
        return replace(placed, layer=Activation(ActivationType.SIGMOID)) if wrong else placed

    return replace(network, layers=tuple(changed(placed) for placed in network.layers))


def outputs_of(network: Network, node: str) -> set[int]:
    """The tensors that a node's layers make."""
    return {number for placed in network.layers if placed.origin.node == node for number in placed.outputs}


def is_output(network: Network, node: str) -> bool:
    """Whether a tensor of a node is an output."""
    return bool(outputs_of(network, node) & {port.tensor for port in network.outputs})


class Chain(torch.nn.Module):
    """``length`` steps, each a product, an activation and a sum; that of step ``turn`` is the only tanh."""

    def __init__(self, length: int, turn: int) -> None:
        super().__init__()
        self.steps = torch.nn.ModuleList(torch.nn.Linear(5, 5) for _ in range(length))
        self.turn = turn

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        early = x
        for index, step in enumerate(self.steps):
            y = step(x)
            if index == self.turn:
                early = x
                y = y.tanh()
            else:
                y = y.relu()
            x = x + y
        return x, early.cos()
