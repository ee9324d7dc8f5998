"""Caches whose new elements alone leave an engine: they are written into the cache there, and no cache is copied.

An engine that writes into the memory of its input must have read all of it before.  Only KVCacheUpdate promises that.
For every other write the engine computes the new cache for those inside that read it, gives what is written and where,
and PyTorch writes that into the program's own memory behind it.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from trtdiag.convert.facts import CacheWrite, RowWrite
from trtdiag.convert.layer_writers.cache_update import is_cache_write
from trtdiag.graph.operators import ATEN, CAST, named_arguments, operator_of, reads_sizes, short_name
from trtdiag.wording import amount, listed

VIEWS = {"slice_scatter": ATEN.slice.Tensor, "select_scatter": ATEN.select.int}
"""The view of a cache that an op writes over, by the op."""


@dataclass(frozen=True)
class _Made:
    """What a node is made of: the elements of ``root``, with these ops one after the other.

    Attributes:
        root: The node whose elements are written over.
        writes: The ops, each with the views that it writes through.
        own: All nodes on the way, casts included, but for the root.
    """

    root: Node
    writes: tuple[tuple[Node, tuple[Node, ...]], ...]
    own: frozenset[Node]


def row_write(
    node: Node, cache: Node, inside: Collection[str], entering: Collection[str], caches: Collection[Node]
) -> RowWrite | str:
    """How a cache is written outside of an engine; why it cannot be, in words, empty for what is no cache.

    Args:
        node: What the program leaves the cache with.
        cache: An input or buffer.
        inside: The ops of the engine, by name.
        entering: The tensors that are there when it runs: its inputs and the weights that it holds.
        caches: All that the program writes to; they may be written by the time that an operand is read.
    """
    made = _made_of(node)
    if not made.writes:  # all of it is new: a count, say
        return ""
    if made.root is not cache:
        return "what it is left with is made of something else"
    own = made.own
    if not all(each.name in inside for each in own):
        return "it is not written in one engine"
    outside = [user for user in cache.users if user.name not in inside and not reads_sizes(user)]
    if outside:
        return "PyTorch or another engine reads its old elements"
    end = node.graph.output_node()
    returned: Sequence[object] = end.args[0]  # type: ignore[assignment]  # a tuple
    if sum(value in own for value in returned) > 1 or cache in returned:
        return "the program also returns it"
    readers = {user for each in own for user in each.users} - own - {end}
    if any(user.name not in inside and not reads_sizes(user) for user in readers):
        return "PyTorch or another engine reads its new elements"
    leaving: dict[str, None] = {}
    for operand in dict.fromkeys(_operands(made)):
        if not isinstance(operand.meta.get("val"), torch.Tensor):
            if not _is_known_size(operand, entering):
                return "a size that says where it is written is known in the engine alone"
        elif operand.name in inside:
            leaving[operand.name] = None
        elif operand.name not in entering or operand in caches:
            return "what is written is neither of the engine nor only given to it"
    writes = tuple(CacheWrite(op.name, tuple(view.name for view in views)) for op, views in made.writes)
    return RowWrite(cache.name, node.name, writes, tuple(leaving))


def rows_note(caches: Sequence[str]) -> str:
    """What is told of caches whose new elements alone leave engines."""
    what = amount(len(caches), "cache")
    return (
        f"{what} ({listed(caches, 4)}): only what a call writes leaves the engine, and is written into the cache there"
    )


def _made_of(node: Node) -> _Made:
    """The elements that a node has, and the ops that wrote over them, the first of them first."""
    writes: list[tuple[Node, tuple[Node, ...]]] = []
    own: list[Node] = []
    while (op := operator_of(node)) is not None:
        before = named_arguments(node, op).get("self")
        written = is_cache_write(node)
        if not isinstance(before, Node) or not (written or (op is CAST and _is_cast_of_floats(node))):
            break
        own.append(node)
        if written:
            inner = _through_view(node)
            writes[:0] = [(node, ())] if inner is None else inner.writes
            own += () if inner is None else inner.own
        node = before
    return _Made(node, tuple(writes), frozenset(own))


def _through_view(node: Node) -> _Made | None:
    """How the view was written that an op puts back, ``select_scatter(x, written(select(x, 0, 1)), 0, 1)``."""
    op = operator_of(node)
    assert op is not None
    named = named_arguments(node, op)
    source, view = named.pop("src", None), VIEWS.get(short_name(op))
    if view is None or not isinstance(source, Node):
        return None
    made = _made_of(source)
    root = made.root
    if not made.writes or root.target is not view or named_arguments(root, view) != named:
        return None
    return _Made(root, tuple((write, (root, *views)) for write, views in made.writes), made.own)


def _is_cast_of_floats(node: Node) -> bool:
    """Whether it gives the same elements, rounded; as they are in the cache, they are as good or better."""
    before = node.args[0]
    values = (node.meta.get("val"), before.meta.get("val") if isinstance(before, Node) else None)
    return all(isinstance(value, torch.Tensor) and value.is_floating_point() for value in values)


def _operands(made: _Made) -> Iterator[Node]:
    """The nodes that say what is written and where."""
    for node in (node for write, views in made.writes for node in (*views, write)):
        op = operator_of(node)
        assert op is not None
        for name, value in named_arguments(node, op).items():
            for item in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(item, Node) and name != "self":
                    yield item


def _is_known_size(node: Node, entering: Collection[str]) -> bool:
    """Whether a size can be computed from what is there before the engine runs."""
    if node.op == "placeholder":
        return True
    if reads_sizes(node):
        return all(source.op == "placeholder" or source.name in entering for source in node.all_input_nodes)
    plain = getattr(node.target, "__module__", "") in (operator.__name__, "_operator", "math", "torch")
    return plain and all(_is_known_size(source, entering) for source in node.all_input_nodes)
