"""The original with sums into places added up in float64: how far its own, one after the other in float32, are off.

A kernel that adds 50,000 elements into one place one by one loses three digits more than one that adds them pairwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from trtdiag.graph.operators import operator_of, short_name, written_arguments

_SUMS = frozenset({"scatter_add", "index_add", "scatter_reduce", "index_reduce", "index_put", "_unsafe_index_put"})


class ExactSums(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Calls of such ops are made in float64, and rounded.

    Attributes:
        used: Whether there was one.
    """

    supports_higher_order_operators = True  # conditions and loops are run as they are

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.used = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Call an op."""
        del types
        given = dict(kwargs or {})
        if not isinstance(func, OpOverload):
            return func(*args, **given)
        written = written_arguments(func)
        if short_name(func) not in _SUMS or len(written) > 1 or args[0].dtype is not torch.float32:
            return func(*args, **given)
        self.used = True
        wide = tree_map_only(torch.Tensor, _wide, (args, given))
        made = func(*wide[0], **wide[1]).to(torch.float32)
        return args[0].copy_(made) if written else made


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.dtype is torch.float32 else x


def adds_into_places(graph: Graph) -> bool:
    """Whether a graph calls such an op."""
    ops = (operator_of(node) for node in graph.nodes)
    return any(op is not None and short_name(op) in _SUMS for op in ops)
