"""Integers that sizes alone decide, such as positions that ``arange`` counts: their least and their greatest."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import suppress

import torch
from torch.fx import Node

from trtdiag.graph.operators import INTEGERS, OpOverload
from trtdiag.graph.values import NodeReader, TensorValue
from trtdiag.shapes.op_call import OpCall, UnreadableError, bare_name
from trtdiag.symbolic import INT64_MAX, Expr, Num, add, floordiv, maximum, minimum, mul, neg, sub

Ends = tuple[Expr, Expr]
"""The least value and the greatest, of a tensor with elements."""

MOST_NODES = 64
"""Own choice: positions are made by a few calls."""

# What they give has no other elements than what they are given.
# fmt: off
_KEEP = frozenset({
    "_to_copy", "alias", "clone", "contiguous", "detach", "expand", "expand_as", "flatten", "flip", "lift_fresh_copy",
    "movedim", "permute", "repeat", "reshape", "slice", "squeeze", "t", "to", "transpose", "type_as", "unflatten",
    "unsqueeze", "view",
})
# fmt: on


def made_of_sizes(node: Node) -> bool:
    """Whether an integer tensor, or all that ``meshgrid`` gives, follows from sizes alone through calls known here."""
    if _is_grid(node):
        return isinstance(node.args[0], (list, tuple)) and all(
            isinstance(one, Node) and made_of_sizes(one) for one in node.args[0]
        )
    return ends_of(node, NodeReader()) is not None


def ends_of(node: Node, reader: NodeReader) -> Ends | None:
    """The ends of the values of an integer tensor; ``None`` where they are not known.

    They may lie further apart than the values do, where one tensor is used twice or the front is cut off.
    """
    return _Ends(reader).of(node) if _known(node) else None


def _known(node: Node) -> bool:
    if node.target is operator.getitem:
        return isinstance(node.args[0], Node) and _is_grid(node.args[0])
    return isinstance(node.target, OpOverload) and (
        bare_name(node.target) in _KEEP or bare_name(node.target) in _COUNTED
    )


def _is_grid(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and bare_name(node.target) == "meshgrid"


def _written(node: Node) -> bool:
    """Whether a call writes into what a node gives, directly or through what may be views of it."""
    for user in node.users:
        if isinstance(user.target, OpOverload):
            name = bare_name(user.target)
            if name.endswith("_") and user.args[:1] == (node,):
                return True
        if _known(user) and _written(user):
            return True
    return False


class _Ends:
    def __init__(self, reader: NodeReader) -> None:
        self._reader = reader
        self._found: dict[Node, Ends | None] = {}

    def of(self, node: Node) -> Ends | None:
        if node not in self._found:
            if len(self._found) >= MOST_NODES:
                return None
            self._found[node] = None  # until it is known
            with suppress(UnreadableError):
                self._found[node] = self._read(node)
        return self._found[node]

    def _read(self, node: Node) -> Ends | None:
        if node.target is operator.getitem:
            return self._item(node)
        if not _known(node) or not isinstance(node.target, OpOverload) or not self._integers(node) or _written(node):
            return None
        call, name = OpCall(node, node.target, self._reader), bare_name(node.target)
        if name == "slice" and call.given("end") not in (None, INT64_MAX):
            return None
        return self.given(call.given("self")) if name in _KEEP else _COUNTED[name](self, call)

    def _item(self, node: Node) -> Ends | None:
        """One of the tensors that ``meshgrid`` repeats."""
        grid, place = node.args
        if not isinstance(grid, Node) or not isinstance(place, int) or _written(node):
            return None
        tensors = grid.args[0]
        return self.given(tensors[place]) if isinstance(tensors, (list, tuple)) else None

    def _integers(self, node: Node) -> bool:
        values = self._reader.node(node).values
        return bool(values) and all(isinstance(one, TensorValue) and one.dtype in INTEGERS for one in values)

    def given(self, value: object) -> Ends:
        """The ends of an argument: a tensor or a number.

        Raises:
            UnreadableError: They are not known.
        """
        given = value.meta.get("val") if isinstance(value, Node) else value
        found: Ends | None = None
        if isinstance(value, Node) and isinstance(given, torch.Tensor):
            found = self.of(value)
        elif isinstance(given, (int, torch.SymInt)) and not isinstance(given, bool):
            size = self._reader.size(given)
            found = None if size is None else (size, size)
        if found is None:
            raise UnreadableError(str(value))
        return found

    def both(self, call: OpCall) -> tuple[Ends, Ends]:
        """The ends of the two operands of a call; raises as ``given``."""
        return self.given(call.given("self")), self.given(call.given("other"))


def _arange(_ends: _Ends, call: OpCall) -> Ends | None:
    start = call.size("start") if call.given("start") is not None else Num(0)
    step = call.number("step", 1)
    return (start, sub(call.size("end"), 1)) if step >= 1 else None


def _sum(sign: int) -> Callable[[_Ends, OpCall], Ends | None]:
    def read(ends: _Ends, call: OpCall) -> Ends | None:
        left, right = ends.both(call)
        low, high = right if sign > 0 else (neg(right[1]), neg(right[0]))
        return (add(left[0], low), add(left[1], high)) if call.given("alpha") in (None, 1) else None

    return read


def _product(ends: _Ends, call: OpCall) -> Ends | None:
    left, (factor, most) = ends.both(call)
    if not isinstance(factor, Num) or factor != most or factor.value < 0:
        return None
    return mul(left[0], factor), mul(left[1], factor)


def _quotient(ends: _Ends, call: OpCall) -> Ends | None:
    left, (divisor, most) = ends.both(call)
    down = bare_name(call.op) == "floor_divide" or call.given("rounding_mode") == "floor"
    if not down or not isinstance(divisor, Num) or divisor != most or divisor.value < 1:
        return None
    return floordiv(left[0], divisor), floordiv(left[1], divisor)


def _clamped(ends: _Ends, call: OpCall) -> Ends:
    found = ends.given(call.given("self"))
    for name, within in (("min", maximum), ("max", minimum)):
        if call.given(name) is not None:
            bound = ends.given(call.given(name))
            found = within(found[0], bound[0]), within(found[1], bound[1])
    return found


def _extreme(within: Callable[..., Expr]) -> Callable[[_Ends, OpCall], Ends]:
    def read(ends: _Ends, call: OpCall) -> Ends:
        left, right = ends.both(call)
        return within(left[0], right[0]), within(left[1], right[1])

    return read


_COUNTED: dict[str, Callable[[_Ends, OpCall], Ends | None]] = {
    "arange": _arange,
    "add": _sum(1),
    "sub": _sum(-1),
    "mul": _product,
    "div": _quotient,
    "floor_divide": _quotient,
    "clamp": _clamped,
    "clamp_min": _clamped,
    "clamp_max": _clamped,
    "minimum": _extreme(minimum),
    "maximum": _extreme(maximum),
}
