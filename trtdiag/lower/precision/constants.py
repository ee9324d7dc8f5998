"""The weights and constants of a graph in half precision: each tensor cast once."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

from trtdiag.lower.graph_copy import constant_tensors, identity
from trtdiag.lower.lowered_facts import Lowered


class Constants:
    """The float32 tensors that a program brings and does not change.

    Args:
        lowered: The program.
        dtype: What they are cast to.
    """

    def __init__(self, lowered: Lowered, dtype: torch.dtype) -> None:
        self._dtype = dtype
        specs = lowered.signature
        self._known = constant_tensors(
            specs.input_specs, specs.output_specs, lowered.tensors, lowered.graph_module.graph
        )
        self._cast: dict[Any, torch.Tensor] = {}
        self._largest: dict[Any, float | None] = {}

    def value(self, node: Node) -> torch.Tensor | None:
        """Return the tensor of a placeholder, ``None`` for anything else."""
        return self._known.get(node.name) if node.op == "placeholder" else None

    def cast(self, node: Node) -> torch.Tensor | None:
        """Return its tensor in half precision, the same object for all names of one tensor."""
        tensor = self.value(node)
        if tensor is None or not _is_real(tensor):
            return None
        key = identity(tensor)
        if key not in self._cast:
            self._cast[key] = tensor.detach().to(self._dtype)
        return self._cast[key]

    def too_large(self, node: Node) -> float | None:
        """Return the largest value of a constant where half precision would make it infinite, else ``None``."""
        tensor = self.value(node)
        if tensor is None or not _is_real(tensor) or tensor.dtype != torch.float32 or tensor.numel() == 0:
            return None
        key = identity(tensor)
        if key not in self._largest:
            low, high = torch.aminmax(tensor.detach())
            if not bool(torch.isfinite(high - low)):  # infinite elements stay so; of the others the largest counts
                low, high = torch.aminmax(torch.nan_to_num(tensor.detach(), nan=0.0, posinf=0.0, neginf=0.0))
            largest = torch.maximum(-low, high)
            # What rounds to the largest finite number is not too large.  Asked of the tensor, not of the number: other
            # weights, too, answer this with yes or no.
            self._largest[key] = float(largest) if bool(largest.to(self._dtype).isinf()) else None
        return self._largest[key]


def _is_real(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, FakeTensor) and not tensor.is_meta and tensor.layout == torch.strided
