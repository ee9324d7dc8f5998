"""Writes into a cache as KVCacheUpdate, where they are proven to be of neighbouring steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import torch
from torch.fx import Node

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.indices import clamped_start, counted_from_the_front, fitted, with_dims
from trtdiag.convert.refusal import Refused, refuse
from trtdiag.graph.operators import INTEGERS, named_arguments, operator_of, short_name
from trtdiag.network import FLOATS, INDICES, DType, Value
from trtdiag.network.layers.attention import KVCacheUpdate
from trtdiag.symbolic import Expr, Num
from trtdiag.symbolic.build import ONE, ZERO

_CACHE_DIMS = 4
_BATCH, _STEPS = 0, 2
"""The dims of a cache that count its batches and its steps; the others are heads and width."""
_Written = tuple[Value, tuple[Hashable, ...], Callable[[], Value]]
"""What is written, of the cache's rank; a key for where it begins; and what makes that: one place, or one a batch."""
_CASTS = frozenset({"_to_copy", "to"})


def is_cache_write(node: Node) -> bool:
    """Whether an op gives its first argument with some elements written over."""
    op = operator_of(node)
    return op is not None and op.namespace == "aten" and short_name(op) in _WRITES


def cache_updated(call: Call, node: Node) -> Value:
    """The cache that an op writes to, written in place.

    Args:
        call: The op; the first of its arguments is the cache.
        node: The node of the op, whose operands say how positions were made.

    Raises:
        Refused: ``no-cache-update``: it is not proven to be what the layer does.
    """
    cache = call.tensor("self")
    if cache.rank != _CACHE_DIMS:
        raise _unfit(f"it has {cache.rank} dims, and the layer takes batch, heads, steps and width")
    if not isinstance(cache.shape[_STEPS], Num):
        raise _unfit("its steps are no number")
    if cache.dtype not in FLOATS:
        raise _unfit(f"it is {cache.dtype.value}, and the layer takes floats")
    update, key, start = _WRITES[short_name(call.op)](call, node, cache)
    steps = update.shape[_STEPS]
    if not call.write.builder.facts.at_least(steps, 1):
        raise _unfit("how many steps are written may be 0")
    write = call.write
    wanted = [*cache.shape[:_STEPS], steps, cache.shape[-1]]
    update = write.cast(write.broadcast_to(fitted(write, update, wanted), wanted), cache.dtype)
    batches = [cache.shape[_BATCH]]
    # Most caches of a program are written to at the same place.
    begins = write.once((*key, *batches), lambda: write.broadcast_to(write.cast(start(), DType.INT32), batches))
    return write.add(KVCacheUpdate(), cache, update, begins)


def _index_copy(call: Call, node: Node, cache: Value) -> _Written:
    """PyTorch refuses negative places here: a row of them needs no look at its sign."""
    _require_steps(call.axis("dim", cache.rank))
    index = with_dims(call.write, call.tensor("index"))
    _require_row(call, named_arguments(node, call.op)["index"], "index", index)
    return call.tensor("source"), ("index_copy", index.id), lambda: call.write.part(index, 0, 0, 1)


def _index_put(call: Call, node: Node, cache: Value) -> _Written:
    write, listed = call.write, call.tensors_or_none("indices")
    given = {axis: index for axis, index in enumerate(listed) if index is not None}
    if call.flag("accumulate"):
        raise _unfit("it is added to what is there")
    if any(index.dtype not in INDICES for index in given.values()):
        raise _unfit("a mask says where it is written")
    nodes = named_arguments(node, call.op)["indices"]
    if set(given) == {_BATCH, _STEPS}:
        return _one_for_each_batch(call, nodes, cache, given)
    _require_steps(*given)
    index, values = given[_STEPS], call.tensor("values")
    if index.rank > 1:
        raise _unfit(f"its positions have {index.rank} dims")
    row = with_dims(write, index)
    _require_row(call, nodes[_STEPS], f"indices[{_STEPS}]", row)
    start = counted_from_the_front(write, row, cache.shape[_STEPS], call.held.get(f"indices[{_STEPS}]"))
    if row.shape != (ONE,) and start is not row:
        raise _unfit("its positions may be negative, and then they are not neighbours")
    if index.rank == 0 and values.rank > 1:
        values = write.unsqueeze(values, [values.rank - 1])
    key = "index_put", index.id, cache.shape[_STEPS]
    return write.with_rank(values, cache.rank), key, lambda: write.part(start, 0, 0, 1)


def _one_for_each_batch(call: Call, nodes: list[Node], cache: Value, given: Mapping[int, Value]) -> _Written:
    """``cache[arange(batch), :, positions] = values``, with values (batch, heads, width)."""
    write, facts = call.write, call.write.builder.facts
    batches, index, values = given[_BATCH], given[_STEPS], call.tensor("values")
    every = batches.rank == 1 and facts.equal(batches.shape[0], cache.shape[_BATCH]) and _counts_from_zero(nodes[0])
    if not every or index.rank > 1 or values.rank != cache.rank - 1:
        raise _unfit("it is not proven that each batch is written to once")
    start = counted_from_the_front(write, with_dims(write, index), cache.shape[_STEPS], call.held.get("indices[2]"))
    return write.unsqueeze(values, [_STEPS]), ("each batch", index.id, cache.shape[_STEPS]), lambda: start


def _slice(call: Call, node: Node, cache: Value) -> _Written:
    del node
    write, picks = call.write, call.op_name == "select_scatter"
    _require_steps(call.axis("dim", cache.rank))
    if not picks and call.integer("step") != 1:
        raise _unfit("it is written at every so many-th step")
    first: Expr = call.size("index") if picks else call.size_or_none("start") or ZERO
    start = clamped_start(first, cache.shape[_STEPS], write.builder.facts)
    source = call.tensor("src")
    source = write.unsqueeze(source, [_STEPS]) if picks else source
    return source, ("slice", start), lambda: write.reshape(write.sizes.scalar(start), [1])


_WRITES: Mapping[str, Callable[[Call, Node, Value], _Written]] = {
    "index_copy": _index_copy,
    "index_put": _index_put,
    "_unsafe_index_put": _index_put,
    "slice_scatter": _slice,
    "select_scatter": _slice,
}


def _require_steps(*axes: int) -> None:
    if axes != (_STEPS,):
        told = " and ".join(map(str, axes))
        raise _unfit(
            f"it is written along dim {told}, and the layer writes along dim {_STEPS} (batch, heads, steps, width)"
        )


def _require_row(call: Call, source: object, name: str, index: Value) -> None:
    """Refuse positions, of one dim, that are not proven to follow one another."""
    content = call.held.get(name)
    follow = content is not None and bool((content.flatten().diff() == 1).all())
    if not (index.shape == (ONE,) or follow or _is_row_of(source)):
        raise _unfit("its positions are not proven to follow one another")


def _is_row(node: Node) -> bool:
    """Whether a tensor of one dim is ``n, n + 1, n + 2 ...``: a range, with one number added to all of it."""
    op, value = operator_of(node), node.meta.get("val")
    if op is None or not isinstance(value, torch.Tensor) or value.dtype not in INTEGERS or value.dim() != 1:
        return False
    named, name = named_arguments(node, op), short_name(op)
    if name == "arange":
        return bool(named.get("step", 1) == 1)
    if name in _CASTS:
        return _is_row_of(named["self"])
    if name != "add" or named.get("alpha", 1) != 1:
        return False
    left, right = named["self"], named["other"]
    return (_is_row_of(left) and _is_one(right)) or (_is_row_of(right) and _is_one(left))


def _is_row_of(operand: object) -> bool:
    return isinstance(operand, Node) and _is_row(operand)


def _is_one(operand: object) -> bool:
    """Whether an operand is one integer."""
    value = operand.meta.get("val") if isinstance(operand, Node) else operand
    if isinstance(value, torch.Tensor):
        return value.dtype in INTEGERS and all(isinstance(size, int) and size == 1 for size in value.shape)
    return isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool)


def _counts_from_zero(node: Node) -> bool:
    """Whether a tensor of one dim is ``0, 1, 2 ...``."""
    op = operator_of(node)
    if op is None or not _is_row(node):
        return False
    named, name = named_arguments(node, op), short_name(op)
    if name in _CASTS:
        return _counts_from_zero(named["self"])
    return name == "arange" and named.get("start", 0) == 0


def _unfit(why: str) -> Refused:
    return refuse("no-cache-update", why)
