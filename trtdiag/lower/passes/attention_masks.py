"""Takes masks of attention out that mask nothing, or what ``is_causal`` says.

With a mask TensorRT 8.6 has no kernel for attention as a whole (docs/benchmarks.md), and PyTorch no flash attention.

transformers writes both kinds by counting places when a model is exported: ``arange(n) >= 0`` where no mask is given,
``keys <= queries`` where a query sees what is before it, and whether places are those of one sequence.  A step of
decoding sees all that is in its cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.fx import Graph, Node

from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.operators import ATEN, named_arguments, operator_of, short_name
from trtdiag.graph.values import NodeReader
from trtdiag.lower.draft import Draft
from trtdiag.symbolic import Expr, Num, add, mul, sub

_ATTENTION = ATEN.scaled_dot_product_attention.default
_MASK, _CAUSAL = (3, "attn_mask"), (5, "is_causal")
"""Their places among the arguments."""
_SAME = frozenset({"to", "_to_copy", "clone", "contiguous", "alias", "expand", "detach"})
"""What leaves each element, or repeats it along dims."""
_RESHAPES = frozenset({"view", "reshape", "_unsafe_view"})
_INTEGERS = (torch.int64, torch.int32, torch.bool)
_FILLED = {"ones": 1, "new_ones": 1, "ones_like": 1, "zeros": 0, "new_zeros": 0, "full": None, "new_full": None}
_ANDS = frozenset({"__and__", "bitwise_and", "logical_and"})
_AHEAD = {"le": 0, "less_equal": 0, "lt": 1, "less": 1}
"""By how much a number must at least be less than another, for this comparison of them to be true."""
_TURNED = {"ge": "le", "greater_equal": "le", "gt": "lt", "greater": "lt"}


def take_masks_out(draft: Draft) -> int:
    """Call attention without masks that mask nothing, and causal in the place of masks that say so."""
    count, masks = 0, _Masks(draft.graph)
    for node in draft.graph.nodes:
        if operator_of(node) is not _ATTENTION:
            continue
        given = named_arguments(node, _ATTENTION)
        mask = given["attn_mask"]
        if not isinstance(mask, Node) or not _is_bool(mask):
            continue
        full = masks.is_full(mask)
        if not full and not masks.is_causal(mask):
            continue
        _give(node, *_MASK, None)
        if not full:
            _give(node, *_CAUSAL, True)
        count += 1
    return count


def _give(node: Node, place: int, name: str, value: bool | None) -> None:
    if place < len(node.args):
        node.update_arg(place, value)
    else:
        node.update_kwarg(name, value)


@dataclass(frozen=True)
class _Line:
    """Integers, or booleans as 0 and 1, that grow evenly along dims: ``at`` the first, ``steps`` by dim from the last.

    Steps of 0 are left out, and those along dims of one element, which broadcast.
    """

    at: Expr
    steps: Mapping[int, int] = field(default_factory=dict)

    def plus(self, other: _Line, times: int = 1) -> _Line:
        """The sum with a multiple of another."""
        axes = {*self.steps, *other.steps}
        summed = {axis: self.steps.get(axis, 0) + times * other.steps.get(axis, 0) for axis in axes}
        return _Line(add(self.at, mul(times, other.at)), {axis: step for axis, step in summed.items() if step})


_FALSE, _TRUE = _Line(Num(0)), _Line(Num(1))


class _Masks:
    """What is known of the masks of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._reader = graph, NodeReader()
        self._lines: dict[Node, _Line | None] = {}

    @cached_property
    def _changed(self) -> set[Node]:
        """What is written in place, and so is not what its op says."""
        return written_nodes(self._graph)

    def is_full(self, mask: Node) -> bool:
        """Whether a tensor of booleans is true throughout."""
        if self._line(mask) == _TRUE:
            return True
        op = operator_of(mask)
        if op is None or mask in self._changed or not _is_bool(mask):
            return False
        name, operands = short_name(op), [each for each in named_arguments(mask, op).values() if isinstance(each, Node)]
        if name in _ANDS:
            return all(map(self.is_full, operands))
        return name in _SAME and bool(operands) and self.is_full(operands[0])

    def is_causal(self, mask: Node) -> bool:
        """Whether query ``i`` sees key ``j`` where ``j <= i``, of several queries and keys."""
        op = operator_of(mask)
        if op is None or mask in self._changed:
            return False
        name, (first, *rest) = short_name(op), named_arguments(mask, op).values()
        if name in _SAME and isinstance(first, Node):
            return self.is_causal(first)
        second = rest[0] if rest else None
        if not isinstance(first, Node) or not isinstance(second, Node):
            return False
        if name in _ANDS:
            left = [each for each in (first, second) if not self.is_full(each)]
            return len(left) == 1 and _is_bool(left[0]) and self.is_causal(left[0])
        if name in _TURNED:
            name, first, second = _TURNED[name], second, first
        keys, queries = self._line(first), self._line(second)
        if name not in _AHEAD or keys is None or queries is None:
            return False
        return keys.plus(queries, -1) == _Line(Num(-_AHEAD[name]), {-1: 1, -2: -1})

    def _line(self, value: object) -> _Line | None:
        """``None`` where a value is not known to be one."""
        size = value.meta.get("val") if isinstance(value, Node) else value
        if isinstance(size, (bool, int, torch.SymInt)):
            expr = self._reader.size(int(size) if isinstance(size, bool) else size)
            return None if expr is None else _Line(expr)
        if not isinstance(value, Node):
            return None
        if value not in self._lines:
            op, line = operator_of(value), None
            val: Any = value.meta.get("val")
            known = isinstance(val, torch.Tensor) and val.dtype in _INTEGERS and value not in self._changed
            if op is not None and known and (found := self._of_call(short_name(op), named_arguments(value, op), val)):
                line = _Line(
                    found.at, {axis: step for axis, step in found.steps.items() if not _is_one(val.shape[axis])}
                )
            self._lines[value] = line
        return self._lines[value]

    def _of_call(self, name: str, given: dict[str, Any], val: Any) -> _Line | None:
        if name == "arange":
            start, step = self._line(given.get("start", 0)), given.get("step", 1)
            if start is None or start.steps or not isinstance(step, int):
                return None
            return _Line(start.at, {-1: step} if step else {})
        if name in _FILLED:
            number = given.get("fill_value", _FILLED[name])
            if not isinstance(number, int):
                return None
            return _Line(Num(bool(number) if val.dtype is torch.bool else int(number)))
        first = next(iter(given.values()), None)
        line = self._line(first)
        if line is None or not isinstance(first, Node):
            return None
        other = self._line(given.get("other"))
        sums = name in ("add", "sub") and val.dtype is not torch.bool
        if sums and other is not None and isinstance(given.get("alpha", 1), int):
            return line.plus(other, given.get("alpha", 1) * (1 if name == "add" else -1))
        if name in ("eq", "ne", *_AHEAD, *_TURNED) and other is not None:
            sizes = [size for each in val.shape if (size := self._reader.size(each)) is not None]
            return _compared(name, line.plus(other, -1), sizes) if len(sizes) == val.dim() else None
        if name == "index":
            return self._picked(line, given["indices"], first.meta["val"].dim())
        if name == "diff":
            return self._differences(line, given, val)
        if name == "cumsum" and isinstance(line.at, Num) and not line.steps and val.dim():
            axis, step = given["dim"] % val.dim() - val.dim(), int(line.at.value)
            return _Line(line.at, {axis: step} if step else {})
        moved = _moved(name, given, line, first.meta["val"], val)
        return moved if moved is None or val.dtype is not torch.bool or moved in (_FALSE, _TRUE) else None

    def _picked(self, line: _Line, indices: list[Any], rank: int) -> _Line | None:
        """What ``index`` picks, where all that matters is picked by lines that are not negative."""
        if line.steps and len(indices) != rank:
            return None
        found = _Line(line.at)
        for axis, step in line.steps.items():
            index = None if _is_bool(indices[axis]) else self._line(indices[axis])
            if index is None or not isinstance(index.at, Num) or min([index.at.value, *index.steps.values()]) < 0:
                return None
            found = found.plus(index, step)
        return found

    def _differences(self, line: _Line, given: dict[str, Any], val: Any) -> _Line | None:
        """Of neighbours along a dim, the first one that of what is put before."""
        axis = given["dim"] % val.dim() - val.dim()
        step, before = line.steps.get(axis, 0), given["prepend"]
        if given["n"] != 1 or given["append"] is not None:
            return None
        if before is None:
            return _Line(Num(step))
        start = self._line(before)
        if start is None or not _is_one(before.meta["val"].shape[axis]):
            return None
        apart = line.plus(start, -1)
        same = apart.at == Num(step) and not apart.steps.keys() - {axis}
        return _Line(Num(step)) if same else None


def _compared(name: str, difference: _Line, sizes: Sequence[Expr]) -> _Line | None:
    """Whether a number is less than another, or equal, by what it is more; ``None`` where that is not the same for all.

    Args:
        name: The comparison.
        difference: How much the first number is more.
        sizes: Of what it gives.
    """
    if name in _TURNED:
        name, difference = _TURNED[name], _FALSE.plus(difference, -1)
    if name not in _AHEAD:
        known = not difference.steps and isinstance(difference.at, Num)
        return (_TRUE if (difference.at == Num(0)) == (name == "eq") else _FALSE) if known else None
    least = most = add(difference.at, _AHEAD[name])
    for axis, step in difference.steps.items():
        last = mul(step, sub(sizes[axis], 1))
        least, most = (add(least, last), most) if step < 0 else (least, add(most, last))
    if isinstance(most, Num) and most.value <= 0:
        return _TRUE
    return _FALSE if isinstance(least, Num) and least.value > 0 else None


def _moved(name: str, given: dict[str, Any], line: _Line, before: Any, after: Any) -> _Line | None:
    """The line of a tensor that has the same elements at other places."""
    steps = line.steps
    if name in _RESHAPES and before.dtype != after.dtype:  # the same bits as other numbers
        return None
    if name == "unsqueeze":
        place = given["dim"] if given["dim"] < 0 else given["dim"] - after.dim()
        return _Line(line.at, {axis if place < axis else axis - 1: step for axis, step in steps.items()})
    if name in _RESHAPES and steps:
        long = [
            [place - each.dim() for place, size in enumerate(each.shape) if not _is_one(size)]
            for each in (before, after)
        ]
        return _Line(line.at, {long[1][0]: steps[long[0][0]]}) if [len(each) for each in long] == [1, 1] else None
    if name == "slice":
        start, axis = given["start"] or 0, given["dim"] % after.dim() - after.dim()
        plain = isinstance(start, int) and start >= 0 and given["step"] == 1
        return _Line(add(line.at, steps.get(axis, 0) * start), steps) if plain else None
    if name == "repeat":
        return line if all(_is_one(given["repeats"][axis]) for axis in steps) else None
    return line if name in _SAME | _RESHAPES else None


def _is_bool(value: object) -> bool:
    return isinstance(value, Node) and value.meta["val"].dtype is torch.bool


def _is_one(size: object) -> bool:
    return isinstance(size, int) and size == 1
