"""Writes the new elements of caches into them, behind the engine that computes them, as ops of PyTorch in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from trtdiag.convert.facts import RowWrite
from trtdiag.convert.row_writes import VIEWS
from trtdiag.graph.operators import ATEN, CAST, OpOverload, named_arguments, short_name
from trtdiag.runtime.draft import CompiledDraft
from trtdiag.runtime.torch_sizes import Fetch

_IN_PLACE = {
    "index_copy": ATEN.index_copy_.default,
    "index_put": ATEN.index_put_.default,
    "_unsafe_index_put": ATEN.index_put_.default,
}


class RowWriting:
    """Writes nodes behind all others of a program, where everything has read what was in the caches before.

    Args:
        draft: What is written to; a cache stands for what the program leaves it with afterwards.
        fetch: Gives what stands for a source node.
    """

    def __init__(self, draft: CompiledDraft, fetch: Fetch) -> None:
        self._draft, self._fetch = draft, fetch
        self._nodes: dict[str, Node] = {node.name: node for node in draft.source.nodes}

    def write(self, row: RowWrite) -> None:
        """Write one cache."""
        cache = self._draft.get(row.cache)
        for write in row.writes:
            part = cache
            for view in write.views:
                part = self._view(self._nodes[view], part)
            self._write(self._nodes[write.op], part)
        self._draft.set(row.result, cache)

    def _view(self, node: Node, part: Node) -> Node:
        assert isinstance(node.target, OpOverload)
        given = self._given(node)
        value = self._draft.values.tensor(node.meta["val"].shape, part.meta["val"].dtype, part.meta["val"].device)
        return self._draft.call(node.target, (part, *given.values()), value, like=node, name=f"{node.name}_part")

    def _write(self, node: Node, part: Node) -> None:
        given, own = self._given(node), part.meta["val"]
        assert isinstance(node.target, OpOverload)
        named, view = f"{node.name}_in_place", VIEWS.get(short_name(node.target))
        if view is None:
            what = "source" if "source" in given else "values"
            given[what] = self._cast(given[what], own.dtype, node)
            target = _IN_PLACE[short_name(node.target)]
            self._draft.call(target, (part, *given.values()), own, like=node, name=named)
            return
        source = self._cast(given.pop("src"), own.dtype, node)
        value = self._draft.values.tensor(source.meta["val"].shape, own.dtype, own.device)
        over = self._draft.call(view, (part, *given.values()), value, like=node, name=f"{node.name}_part")
        self._draft.call(ATEN.copy_.default, (over, source), value, like=node, name=named)

    def _given(self, node: Node) -> dict[str, Any]:
        """What an op is given beside the tensor that it is of."""
        assert isinstance(node.target, OpOverload)
        named = named_arguments(node, node.target)
        return {name: _mapped(value, self._operand) for name, value in named.items() if name != "self"}

    def _operand(self, node: Node) -> Any:
        """What stands for an operand; a size is computed anew where nothing else needed it."""
        if isinstance(node.meta.get("val"), torch.Tensor) or self._draft.has(node.name):
            return self._fetch(node.name)
        return self._draft.copy(node, lambda name: self._operand(self._nodes[name]))

    def _cast(self, node: Node, dtype: torch.dtype, like: Node) -> Node:
        value = node.meta["val"]
        if value.dtype == dtype:
            return node
        made = self._draft.values.tensor(value.shape, dtype, value.device)
        return self._draft.call(CAST, (node,), made, like=like, name=f"{like.name}_cast", dtype=dtype)


def _mapped(value: Any, operand: Callable[[Node], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_mapped(item, operand) for item in value]
    return operand(value) if isinstance(value, Node) else value
