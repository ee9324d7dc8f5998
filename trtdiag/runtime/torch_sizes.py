"""Sizes that PyTorch computes between engines, from dims of tensors that are still there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.segment import DimSource, LocalSize
from trtdiag.network.symbol_values import solvable
from trtdiag.runtime.draft import CompiledDraft
from trtdiag.runtime.size_calls import computed
from trtdiag.symbolic import Sym, add, as_expr, floordiv, mul

Fetch = Callable[[str], Any]


class TorchSizes:
    """Writes the nodes of sizes, each when it is first needed.

    Args:
        draft: What is written to.
        sizes: The sizes that PyTorch computes.
    """

    def __init__(self, draft: CompiledDraft, sizes: Sequence[LocalSize]) -> None:
        self._draft = draft
        self._sizes = {size.node: size for size in sizes}
        self._nodes: Mapping[str, Node] = {node.name: node for node in draft.source.nodes}
        self._dims: dict[tuple[str, int], Node] = {}

    def fetch(self, name: str) -> Any:
        """What stands for a source node; a size is written now if it was not, with the sizes that it is made of.

        Raises:
            KeyError: Neither a size nor at hand: the partition's order is not kept.
        """
        waiting = [name]
        while waiting:
            current = waiting[-1]
            if self._draft.has(current) or self._nodes[current].op == "get_attr":
                waiting.pop()
                if not self._draft.has(current):
                    self._draft.copy(self._nodes[current], self._draft.get)
                continue
            size = self._sizes[current]
            missing = [operand for operand in size.operands if not self._draft.has(operand)]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            self._write(size)
        return self._draft.get(name)

    def _write(self, size: LocalSize) -> None:
        node = self._nodes[size.node]
        if size.expr is None:
            self._draft.copy(node, self._draft.get)
            return
        whole = next((source for source in size.sources if source.extent == size.expr), None)
        if whole is not None:
            self._draft.set(size.node, self._number(whole, node))
            return
        call = self._draft.calls(node)
        symbols = dict(self._symbol(source, node, call) for source in size.sources)
        self._draft.set(size.node, computed(size.expr, symbols, call))

    def _number(self, source: DimSource, like: Node) -> Any:
        tensor = self._draft.get(source.tensor)
        if source.dim is None:
            return tensor
        place = (source.tensor, source.dim)
        if place not in self._dims:
            op, value = torch.ops.aten.sym_size.int, tensor.meta["val"].shape[source.dim]
            self._dims[place] = self._draft.call(op, (tensor, source.dim), value, like=like, name="sym_size_int")
        return self._dims[place]

    def _symbol(self, source: DimSource, like: Node, call: Callable[..., Any]) -> tuple[str, Any]:
        """The symbol of a plain or affine extent, and its value."""
        number = self._number(source, like)
        solution = solvable(source.extent)
        assert solution is not None, f"{source.extent} gives no symbol"
        name, factor, offset = solution
        if isinstance(source.extent, Sym):
            return name, number
        # n = a*s + b, both sides times the denominators.
        both = factor.denominator * offset.denominator
        top = add(mul(Sym("n"), as_expr(both)), as_expr(int(-offset * both)))
        return name, computed(floordiv(top, as_expr(int(factor * both))), {"n": number}, call)
