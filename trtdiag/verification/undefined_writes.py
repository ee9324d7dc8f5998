"""Places that get several values at once, of which PyTorch does not define which one stays.

PyTorch says so of ``index_put`` without ``accumulate``, ``scatter``, ``index_copy`` and ``put`` where an index repeats:
what is written last depends on the device and on how work is split.  Two right programs then differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.node_kinds import reached
from trtdiag.graph.operators import target_name
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.verification.lowered_run import LoweredRun, origin_of, user_outputs

Written = tuple[torch.Tensor, torch.Tensor]
"""The flat place in the tensor that is written into, and the value, of each element that is written."""


def undefined_outputs(lowered: Lowered, flat_inputs: Sequence[Any]) -> Mapping[int, str]:
    """The program's outputs that depend on such a place, by their place among the user's outputs, with the reason.

    Args:
        lowered: The program; run by PyTorch, op by op, if it has such an op at all.
        flat_inputs: The user's inputs.

    An output is named if any path leads to it: whether a difference comes from there alone is not known.
    """
    graph = lowered.graph_module.graph
    if not any(target_name(node.target) in _WRITES for node in graph.nodes if node.op == "call_function"):
        return {}
    search = _Search(lowered)
    search.of(flat_inputs)
    results = user_outputs(lowered)
    found: dict[int, str] = {}
    for node in search.found:
        behind = set(reached([node], lambda each: each.users))  # a lowered graph writes nothing in place
        for index, result in enumerate(results):
            if isinstance(result, Node) and result in behind:
                found.setdefault(index, _why(lowered, node))
    return found


class _Search(LoweredRun):
    """Runs the program, and keeps the nodes that write several values to one place."""

    def __init__(self, lowered: Lowered) -> None:
        super().__init__(lowered)
        self.found: list[Node] = []

    def run_node(self, n: Node) -> Any:
        written = _WRITES.get(target_name(n.target)) if n.op == "call_function" else None
        if written is not None:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            pairs = written(*args, **kwargs)
            if pairs is not None and pairs[0].numel() == pairs[1].numel() and _several(*pairs):
                self.found.append(n)
        return super().run_node(n)


def _several(places: torch.Tensor, values: torch.Tensor) -> bool:
    """Whether a place gets two values that are not the same."""
    order = places.reshape(-1).argsort()
    sorted_places, sorted_values = places.reshape(-1)[order], values.reshape(-1)[order]
    same_place = sorted_places[1:] == sorted_places[:-1]
    one, other = sorted_values[1:], sorted_values[:-1]
    same_value = (one == other) | ((one != one) & (other != other))
    return bool((same_place & ~same_value).any())


def _why(lowered: Lowered, node: Node) -> str:
    return (
        f"{origin_of(lowered, node)} writes different values to one place there, and PyTorch does not define which one"
        " stays: the outputs that depend on it cannot be compared"
    )


def _numbered(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.numel(), device=x.device).reshape(x.shape)


def _index_put(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, accumulate: bool = False
) -> Written | None:
    if accumulate:
        return None
    places = torch.ops.aten.index.Tensor(_numbered(x), list(indices))
    return places, values.expand(places.shape)


def _scatter(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor) -> Written | None:
    if not x.dim() or not index.numel():
        return None
    return _numbered(x).gather(dim, index), src[tuple(slice(size) for size in index.shape)]


def _index_copy(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> Written | None:
    if not x.dim():
        return None
    return _numbered(x).index_select(dim, index), source


def _put(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False) -> Written | None:
    if accumulate:
        return None
    return torch.where(index < 0, index + x.numel(), index).reshape(-1), source.reshape(-1)


_WRITES: Mapping[str, Callable[..., Written | None]] = {
    "aten.index_put.default": _index_put,
    "aten._unsafe_index_put.default": _index_put,
    "aten.scatter.src": _scatter,
    "aten.index_copy.default": _index_copy,
    "aten.put.default": _put,
}
