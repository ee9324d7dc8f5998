"""Plans float64: float32 where the user allows it, and where PyTorch itself computes in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.fx import Node

from trtdiag.dtypes.plan_facts import Planned
from trtdiag.dtypes.plan_uint8 import is_cast
from trtdiag.graph.limit import Limit
from trtdiag.graph.operators import given_to, operator_of, short_name, value_arguments
from trtdiag.graph.values import leaves

_FIX = "pass truncate_double=True (--truncate-double) to compute it in float32, or call .float() on it in the model"
_CREATING = frozenset({"full", "scalar_tensor", "zeros", "ones", "lift_fresh_copy"})
FLOAT32_MAX = torch.finfo(torch.float32).max
_TOO_LARGE = Planned(
    None, "float32 cannot hold its values", "double-precision", "keep its values below 3.4e38 in the model"
)


@dataclass
class Doubles:
    """The plan for float64 tensors.

    Args:
        truncate: Whether the user allows float32 in their place.
        held: Gives the value of a constant, ``None`` for other nodes.
    """

    truncate: bool
    held: Callable[[Node], torch.Tensor | None]

    def planned(self, node: Node, value: torch.Tensor) -> Planned:
        """Return float32 where allowed, or no dtype."""
        if value.dim() == 0 and self._is_given(node) and node.users and all(_rounds(user) for user in node.users):
            return Planned(torch.float32, "a number that PyTorch itself rounds to the other operand's dtype")
        if not self.truncate:
            return Planned(None, "truncate_double is off", "double-precision", _FIX)
        constant = self.held(node)
        if constant is not None and _beyond_float32(constant):
            return _TOO_LARGE
        return Planned(torch.float32, "truncate_double")

    def limit(self, node: Node) -> Limit | None:
        """Return the limit of an op on doubles that takes a number which float32 cannot hold."""
        op = operator_of(node)
        for argument in () if op is None else value_arguments(op):
            given = given_to(node, argument)
            if isinstance(given, (int, float)) and math.isfinite(given) and abs(given) > FLOAT32_MAX:
                return _TOO_LARGE.limit(f"its argument {argument.name}={given}", torch.float64)
        return None

    def _is_given(self, node: Node) -> bool:
        op = operator_of(node)
        return self.held(node) is not None or (op is not None and short_name(op) in _CREATING)


def _rounds(user: Node) -> bool:
    """Whether an op rounds a float64 tensor without dims among its operands before it computes.

    Such a tensor takes no part in type promotion beside floats with dims.
    """
    results = [value for value in leaves(user.meta.get("val")) if isinstance(value, torch.Tensor)]
    if not results or any(value.dtype in (torch.float64, torch.complex128) for value in results):
        return False
    if is_cast(user):
        return results[0].dtype.is_floating_point
    operands = [source.meta.get("val") for source in user.all_input_nodes]
    floats = [value for value in operands if isinstance(value, torch.Tensor) and value.dtype.is_floating_point]
    with_dims = [value for value in floats if value.dim() > 0]
    return bool(with_dims) and all(value.dtype != torch.float64 for value in with_dims)


def _beyond_float32(constant: torch.Tensor) -> bool:
    if constant.is_meta or type(constant).__name__ == "FakeTensor" or constant.numel() == 0:
        return False
    sizes = constant.detach().abs()
    return bool(((sizes > FLOAT32_MAX) & sizes.isfinite()).any())
