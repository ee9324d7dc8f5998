"""Symbols of sizes that only the data decides: which node bears each, as torch notes it, and what holds of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.fx import Graph
from torch.fx.experimental.symbolic_shapes import CallMethodKey
from torch.utils._pytree import SequenceKey

BINDINGS = "unbacked_bindings"
"""The key in a node's ``meta``."""


def borne(graph: Graph) -> frozenset[str]:
    """The symbols that nodes of a graph bear."""
    return frozenset(str(symbol) for node in graph.nodes for symbol in node.meta.get(BINDINGS, ()))


def bindings(values: Sequence[torch.Tensor], names: Collection[str]) -> dict[Any, tuple[Any, ...]]:
    """Where a list of tensors has dims that are symbols of these names: ``meta["unbacked_bindings"]`` of its node."""
    found: dict[Any, tuple[Any, ...]] = {}
    for index, tensor in enumerate(values):
        for dim, size in enumerate(tensor.shape):
            if isinstance(size, torch.SymInt) and str(size.node.expr) in names and size.node.expr not in found:
                found[size.node.expr] = (SequenceKey(index), CallMethodKey("size"), SequenceKey(dim))
    return found


def expect(condition: bool | torch.SymBool, message: str) -> None:
    """Record that ``condition`` holds, as a guard or for sizes born from data as an assertion.

    Raises:
        RuntimeError: torch knows that it does not hold.
    """
    torch._check(condition, lambda: message)  # type: ignore[no-untyped-call]  # noqa: SLF001 - the documented way, in spite of its name
