"""The typed layer network: what converters write, and backends read."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch

from trtdiag.graph.source import Frame
from trtdiag.network.layer import Layer
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Condition, Expr, Range


@dataclass(frozen=True)
class Port:
    """An input or output: its name, and the id of its tensor."""

    name: str
    tensor: int


@dataclass(frozen=True)
class Placed:
    """A layer at its place: the ids of the tensors it reads and makes, and where it comes from."""

    layer: Layer
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origin: Origin


@dataclass(frozen=True)
class Network:
    """A strongly typed graph of layers.  ``NetworkBuilder`` and ``from_bytes`` make it, and check all of it.

    Attributes:
        inputs: In order; their tensors come first.
        layers: In topological order; each has what it reads before it.
        outputs: In order; a tensor may be one more than once, and may be an input.
        tensors: Dtype, symbolic shape and, for sizes, values of each tensor; its id is its index.
        weights: The constants' content by key, each once.  Not copied: they change where their owner changes them.
        ranges: The range of each symbol.  A symbol of a shape or value is a size of an input, an element of an input
            whose values are known, made by one as ``a * symbol + b``, or born of a layer (``counts``).  Others only
            occur in the two below.
        given: Conditions that hold for all inputs the network is run with; shapes may rest on them.
        definitions: What symbols are made of, where shapes rest on that.
        recipes: How constants are made of parameters, by the id of their tensor, where that was asked for; not saved.
    """

    inputs: tuple[Port, ...]
    layers: tuple[Placed, ...]
    outputs: tuple[Port, ...]
    tensors: tuple[Tensor, ...]
    weights: Mapping[str, torch.Tensor]
    ranges: Mapping[str, Range]
    given: tuple[Condition, ...] = ()
    definitions: Mapping[str, Expr] = field(default_factory=dict)
    recipes: Mapping[int, Hashable] = field(default_factory=dict, compare=False, repr=False)

    @property
    def input_types(self) -> tuple[Tensor, ...]:
        """The tensor of each input."""
        return tuple(self.tensors[port.tensor] for port in self.inputs)

    @property
    def output_types(self) -> tuple[Tensor, ...]:
        """The tensor of each output."""
        return tuple(self.tensors[port.tensor] for port in self.outputs)

    @cached_property
    def counts(self) -> Mapping[str, Expr]:
        """The sizes that the data decides, by symbol, with the most that each can be; those it rests on come first."""
        found: dict[str, Expr] = {}
        for placed in self.layers:
            for name, most in placed.layer.born([self.tensors[number] for number in placed.inputs]).items():
                found.setdefault(name, most)
        return found

    def describe(self, placed: Placed) -> str:
        """A layer in words: ``SoftMax for aten.softmax.int (softmax) at model.py:12``."""
        return f"{placed.layer.kind} for {placed.origin}"


@dataclass(frozen=True, slots=True)
class Origin:
    """The op that a layer was written for (``aten.relu.default``), its graph node, and the line it stands in."""

    op: str
    node: str
    frame: Frame | None = None

    def __str__(self) -> str:
        where = f" at {self.frame}" if self.frame is not None else ""
        return f"{self.op} ({self.node}){where}"
