"""Brings the indices of slices and selections into [0, size]: nobody after this counts from the end or clamps."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.operators import named_arguments, operator_of, schema_name
from trtdiag.lower.draft import Draft, insert_call
from trtdiag.lower.tracing_conditions import asking
from trtdiag.symbolic import Expr, ExpressionError, Relation, compare, from_sympy, number

_SLICES = frozenset({"aten::slice", "aten::slice_scatter"})
_ONE_INDEX = {"aten::select": "index", "aten::select_scatter": "index", "aten::narrow": "start"}
_TO_THE_END = torch.iinfo(torch.int64).max


@dataclass(frozen=True)
class _Number:
    """An index as an argument, a number or a node, with its expression over the symbols."""

    given: Any
    expr: Expr


class _OpenError(Exception):
    """An index whose sign depends on the input, or that no expression describes."""


def bring_indices_inside(draft: Draft) -> int:
    """Write start and end of each slice, and each index, as a value from 0 to the size; full slices go.

    ``x[:300]`` of a size that is 300 or less for some inputs ends at ``sym_min(300, size)``.  An index that counts from
    the front for some inputs and from the end for others stays as it is written.
    """
    work = _Indices(draft)
    locked = written_nodes(draft.graph)
    count = 0
    for node in list(draft.graph.nodes):
        op = operator_of(node)
        name = "" if op is None else schema_name(op)
        if op is None or (name not in _SLICES and name not in _ONE_INDEX) or node in locked:
            continue
        given = named_arguments(node, op)
        try:
            with draft.graph.inserting_before(node):
                changed = work.slice(node, given) if name in _SLICES else work.index(node, given, _ONE_INDEX[name])
        except _OpenError:
            continue
        count += changed
        if name == "aten::slice" and work.is_full(node):
            node.replace_all_uses_with(node.args[0])
            draft.graph.erase_node(node)
    return count


class _Indices:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._sizes: dict[tuple[Node, int], Node] = {}

    def slice(self, node: Node, given: dict[str, Any]) -> bool:
        """Rewrite the arguments of a slice; whether any changed."""
        size = self._size(node, given)
        start = _Number(0, number(0)) if given["start"] is None else self._inside(node, given["start"], size)
        end = size if given["end"] in (None, _TO_THE_END) else self._inside(node, given["end"], size)
        if start.given != 0 and end is not size and not self._surely(Relation.LE, start.expr, end.expr):
            end = self._call(node, torch.sym_max, start, end)  # otherwise empty
        given.update(start=start.given, end=end.given)
        return _rewrite(node, given)

    def index(self, node: Node, given: dict[str, Any], name: str) -> bool:
        """Rewrite the index of a selection, which torch has checked to be inside; whether it changed."""
        index = given[name]
        if isinstance(index, int) and index >= 0:
            return False
        found = _number(index)
        if self._surely(Relation.GE, found.expr, number(0)):
            return False
        if not self._surely(Relation.LT, found.expr, number(0)):
            raise _OpenError
        given[name] = self._call(node, operator.add, self._size(node, given), found).given
        return _rewrite(node, given)

    def is_full(self, node: Node) -> bool:
        """Whether a rewritten slice gives all of its input."""
        source, dim, start, end, step = node.args
        assert isinstance(source, Node)
        assert isinstance(dim, int)
        size = source.meta["val"].shape[dim]
        to_the_end = end == size if isinstance(size, int) else end is self._sizes.get((source, dim))
        return bool(start == 0 and step == 1 and to_the_end)

    def _inside(self, node: Node, index: Any, size: _Number) -> _Number:
        """An index as torch reads it in a slice: from the end where negative, then clamped."""
        found = _number(index)
        if not self._surely(Relation.GE, found.expr, number(0)):
            if not self._surely(Relation.LT, found.expr, number(0)):
                raise _OpenError
            found = self._call(node, operator.add, size, found)
            if not self._surely(Relation.GE, found.expr, number(0), size):
                found = self._call(node, torch.sym_max, found, _Number(0, number(0)))
        elif not self._surely(Relation.LE, found.expr, size.expr, size):
            found = self._call(node, torch.sym_min, found, size)
        return found

    def _surely(self, relation: Relation, left: Expr, right: Expr, size: _Number | None = None) -> bool:
        facts = [] if size is None else [compare(Relation.GE, size.expr, number(0))]
        return self._draft.proofs.hold(compare(relation, left, right), facts)

    def _size(self, node: Node, given: dict[str, Any]) -> _Number:
        source = next(iter(given.values()))
        val, dim = source.meta["val"], given["dim"]
        if not val.dim():
            raise _OpenError
        dim %= val.dim()
        given["dim"] = dim
        size = val.shape[dim]
        if isinstance(size, int):
            return _Number(size, number(size))
        known = self._sizes.get((source, dim))
        if known is None:
            with self._draft.graph.inserting_after(source) if source.op != "placeholder" else self._first():
                name, sizes = f"{source.name}__size_{dim}", torch.ops.aten.sym_size.int
                known = insert_call(self._draft.graph, sizes, (source, dim), size, node, name=name)
            self._sizes[source, dim] = known
        return _Number(known, _number(known).expr)

    def _first(self) -> Any:
        return self._draft.graph.inserting_after(self._draft.placeholders[-1])

    def _call(self, node: Node, function: Callable[..., Any], left: _Number, right: _Number) -> _Number:
        vals = [each.given.meta["val"] if isinstance(each.given, Node) else each.given for each in (left, right)]
        with asking(self._draft.mode.shape_env):
            val = function(*vals)
        if isinstance(val, int):
            return _Number(val, number(val))
        given = (left.given, right.given)
        made = insert_call(self._draft.graph, function, given, val, node, function.__name__)
        return _Number(made, _number(made).expr)


def _number(index: Any) -> _Number:
    if isinstance(index, int):
        return _Number(index, number(index))
    val = index.meta.get("val") if isinstance(index, Node) else None
    if isinstance(val, int):
        return _Number(index, number(val))
    if not isinstance(val, torch.SymInt):
        raise _OpenError
    try:
        return _Number(index, from_sympy(val.node.expr))  # type: ignore[arg-type]  # an integer
    except ExpressionError as error:
        raise _OpenError from error


def _rewrite(node: Node, given: dict[str, Any]) -> bool:
    args = tuple(given.values())
    if node.args == args and not node.kwargs:
        return False
    node.args, node.kwargs = args, {}
    return True
