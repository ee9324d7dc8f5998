"""Values of nodes that are made after tracing: tensors without memory, in the fake mode of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph


def fake_mode_of(graph: Graph) -> FakeTensorMode:
    """The fake mode that the values of a graph belong to; a new one where it has none."""
    return fake_mode_among(node.meta.get("val") for node in graph.nodes)


def fake_mode_among(vals: Iterable[Any]) -> FakeTensorMode:
    """The fake mode that the tensors among values belong to; a new one where they have none."""
    mode = detect_fake_mode([val for val in vals if isinstance(val, torch.Tensor)])
    return mode if mode is not None else FakeTensorMode(allow_non_fake_inputs=True)


def has_values(tensor: torch.Tensor) -> bool:
    """Whether a tensor has elements to read: it is neither fake nor on the meta device."""
    return not isinstance(tensor, FakeTensor) and not tensor.is_meta


class FakeValues:
    """Makes values for new nodes of a graph.

    Args:
        graph: Its nodes' values say which fake mode new ones belong to.
    """

    def __init__(self, graph: Graph) -> None:
        self._mode = fake_mode_of(graph)

    def tensor(self, shape: Sequence[Any], dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
        """A row-major tensor of these sizes, numbers or SymInts of the graph."""
        with self._mode:
            return torch.empty(tuple(shape), dtype=dtype, device=device)

    def given_by(self, op: Callable[..., Any], *operands: Any) -> Any:
        """What an op gives for values of the graph."""
        with self._mode:
            return op(*operands)

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of the mode for a real one, as the value of a placeholder that holds it."""
        return self.tensor(tensor.shape, tensor.dtype, tensor.device)
