"""One op of a graph, run alone on real tensors: whether it refuses sizes that a rule says it refuses.

A rule that is wrong would refuse models that run.  So what an op is said to ask is believed only where the op itself
runs at sizes that fulfil it and, at those that do not, raises or gives another shape than the graph says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from trtdiag.frontend.bounds_checked_run import trusted_calls_checked
from trtdiag.graph.operators import HigherOrderOperator, arguments_of
from trtdiag.lower.concrete_values import Point, TensorAt, UnplaceableError, spell
from trtdiag.shapes.op_call import Callee, bare_name, callee
from trtdiag.shapes.op_demands.attention import FUSED
from trtdiag.shapes.size_values import made_of_sizes
from trtdiag.symbolic import ExpressionError

MOST_ELEMENTS = 1 << 24
"""Own choice: in all tensors of a call together, 64 MiB of float32."""
LIMIT_S = 5.0
"""Own choice: for all calls of one program."""

_ATTENTION = frozenset({"scaled_dot_product_attention", *FUSED, "flex_attention"})


class NotTriedError(Exception):
    """A call is too large to be run, or the time is over; its text says which."""


class OpTrial:
    """Runs single ops of a graph, all within one time limit."""

    def __init__(self) -> None:
        self._until = time.thread_time() + LIMIT_S

    def refusal(self, node: Node, refused: Mapping[str, int], fitting: Mapping[str, int]) -> str:
        """How a node's op refuses sizes: its error, or the shape that it gives; empty where it takes them.

        Args:
            node: The call of an op.
            refused: A size for each symbol, at which the op is said to refuse.
            fitting: The same, at which it is said to run.

        Raises:
            NotTriedError: It was not run.
        """
        try:
            self._fits(node, refused)
            self._fits(node, fitting)
            fault = self._run(node, fitting)
            if fault:
                raise NotTriedError(f"here it does not run at sizes that fit either: {fault}")
            return self._run(node, refused)
        except (UnplaceableError, ExpressionError) as why:
            raise NotTriedError(str(why)) from why

    def _fits(self, node: Node, numbers: Mapping[str, int]) -> None:
        point = Point(numbers)
        placed = [point.place(given.meta.get("val")) for given in node.all_input_nodes] + [_recorded(node, point)]
        count = sum(prod(tensor.sizes) for value in placed for tensor in _tensors(value))
        if count > MOST_ELEMENTS:
            raise NotTriedError(f"the call has {count:,} elements")
        if time.thread_time() > self._until:
            raise NotTriedError(f"{LIMIT_S:g} s were over")

    def _run(self, node: Node, numbers: Mapping[str, int]) -> str:
        """How the op fails; empty where it gives what the graph says."""
        point = Point(numbers)
        op = callee(node)
        assert op is not None  # only calls of operators ask for anything
        recorded = _recorded(node, point)
        try:
            args, kwargs = (map_arg(given, lambda n: _given(n, point)) for given in _arguments(node))
        except (RuntimeError, TypeError, ValueError) as why:
            raise NotTriedError(f"its indices cannot be made: {str(why).strip().splitlines()[:1]}") from why
        try:
            with torch.no_grad(), trusted_calls_checked(node.graph.owning_module):
                made = _callable(op)(*args, **kwargs)
        except Exception as error:  # whatever a kernel raises is its refusal
            words = str(error).strip().splitlines()
            return f"{type(error).__name__}: {words[0]}" if words else type(error).__name__
        if recorded is None:
            return ""
        given, asked = _shapes(Point({}).place(made)), _shapes(recorded)
        if op is not _callable(op):
            given, asked = given[:1], asked[:1]
        return "" if given == asked else f"it gives {spell(given)} where the graph has {spell(asked)}"


def _recorded(node: Node, point: Point) -> Any:
    """The node's value at a point; ``None`` where its sizes depend on data."""
    return None if node.meta.get("unbacked_bindings") else point.place(node.meta.get("val"))


def _arguments(node: Node) -> tuple[Any, Any]:
    op = callee(node)
    if isinstance(op, HigherOrderOperator):
        return node.args[:3], {"enable_gqa": True}
    if op is None or bare_name(op) not in _ATTENTION:
        return node.args, node.kwargs
    names = list(arguments_of(op))
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    query, key, value = (given.pop(name) for name in ("query", "key", "value"))
    mask = given.get("attn_mask", given.get("attn_bias"))
    kept = {name: given[name] for name in ("is_causal", "scale", "enable_gqa") if name in given}
    return (query, key, value, mask), kept


def _callable(op: Callee) -> Callable[..., Any]:
    """What to run for an op.

    The fused kernels of attention for the CPU do not compare the lengths of keys and values, and read beyond the
    shorter (torch 2.13): the form of matrix products stands for them.
    """
    if bare_name(op) in _ATTENTION:
        return torch.ops.aten._scaled_dot_product_attention_math.default  # noqa: SLF001
    return op


def _given(node: Node, point: Point) -> Any:
    """What a node gives to the op: itself, where sizes alone decide its values, else what ``_real`` makes."""
    value = node.meta.get("val")
    if not made_of_sizes(node):
        return _real(point.place(value))
    args, kwargs = (
        map_arg(pytree.tree_map_only(torch.device, lambda _: torch.device("cpu"), given), lambda n: _given(n, point))
        for given in (node.args, node.kwargs)
    )
    assert callable(node.target)  # made_of_sizes knows calls only
    return node.target(*args, **kwargs)


def _real(value: Any) -> Any:
    """Tensors of zeros, of ones where they hold floats: zeros are indices into everything."""
    if isinstance(value, TensorAt):
        make = torch.ones if value.dtype.is_floating_point else torch.zeros
        return make(value.sizes, dtype=value.dtype)
    return [_real(item) for item in value] if isinstance(value, tuple) else value


def _tensors(value: Any) -> Iterator[TensorAt]:
    if isinstance(value, TensorAt):
        yield value
    for item in value if isinstance(value, tuple) else ():
        yield from _tensors(item)


def _shapes(value: Any) -> tuple[Any, ...]:
    return tuple(tensor.sizes for tensor in _tensors(value))
