"""Attention by its layer, or by products and a softmax where the target has no layer for what is asked."""

from __future__ import annotations

from math import sqrt

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.layer_patterns import unrepeated_heads
from trtdiag.convert.layer_writers.matmul import product
from trtdiag.convert.refusal import refuse
from trtdiag.convert.reshape_writer import ONE
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, Value
from trtdiag.network.layers import Attention, CausalMaskKind, ReduceOperation, Select, SoftMax
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr, Num

MOST_KEPT = 1 << 20
"""Own choice: elements of a causal mask that is kept as a constant, a byte each."""


def attended(call: Call, mask_name: str | None, *, shared_heads: bool = False) -> Value:
    """``softmax(query @ key^T * scale + mask) @ value``, 0 for a query that sees no key."""
    write = call.write
    if call.number("dropout_p"):
        raise refuse("dropout", "it drops weights at random", "call eval() on the module, or pass dropout_p=0.0")
    query, key, value = (call.tensor(name) for name in ("query", "key", "value"))
    if not query.dtype.is_float:
        raise refuse("not-float", "it is of integers, and PyTorch has none of those")
    mask = call.tensor_or_none(mask_name) if mask_name is not None else None
    causal = call.flag("is_causal")
    if "Attention" in write.target.layers:
        own = [unrepeated_heads(x) for x in (key, value)]
        if own[0] is not None and own[1] is not None and own[0].shape[1] == own[1].shape[1]:
            key, value, shared_heads = own[0], own[1], True
    if "Attention" in write.target.layers and _fits(write, query, key, value, mask, shared_heads):
        return _by_layer(write, query * _scale(call, query), key, value, mask, causal)
    dtype = query.dtype
    if not call.half_asked:
        # As PyTorch's kernels compute it: scores that are rounded to half precision move the weights by up to a tenth.
        query, key, value = (write.cast(x, DType.FLOAT32) for x in (query, key, value))
    y = _by_products(write, query * _scale(call, query), key, value, mask, causal, shared_heads)
    return write.cast(y, dtype)


def _scale(call: Call, query: Value) -> Value:
    """The scale, of the size of a query where none is given; that may be known only when the network runs."""
    write, size = call.write, query.shape[-1]
    given = call.number_or_none("scale")
    if given is not None:
        return write.scalar(float(given), query)
    if isinstance(size, Num):
        return write.scalar(1 / sqrt(int(size.value)), query)
    root = write.sizes.real(size, DType.FLOAT32).sqrt().reciprocal()
    return write.reshape(write.cast(root, query.dtype), [1] * query.rank)


def _fits(write: Writer, query: Value, key: Value, value: Value, mask: Value | None, shared: bool) -> bool:
    """Whether the layer takes these operands: no batch dim broadcasts, heads that share keys are numbers, one width."""
    facts = write.builder.facts
    if query.rank not in (3, 4) and (query.rank < 3 or mask is not None):
        return False
    if key.rank != query.rank or value.rank != query.rank:
        return False
    for axis, (left, right) in enumerate(zip(query.shape[:-2], key.shape[:-2], strict=True)):
        numbers = isinstance(left, Num) and isinstance(right, Num)
        if not facts.equal(left, right) and not (shared and axis == 1 and query.rank == 4 and numbers):
            return False
    if not all(facts.equal(*sizes) for sizes in zip(key.shape, value.shape, strict=True)):
        return False
    if mask is None:
        return True
    scores = (*query.shape[:-1], key.shape[-2])
    pairs = list(zip(reversed(mask.shape), reversed(scores), strict=False))
    fits = mask.rank <= query.rank and all(size == ONE or facts.equal(size, whole) for size, whole in pairs)
    return fits and mask.dtype in (DType.BOOL, query.dtype)


def _by_layer(write: Writer, query: Value, key: Value, value: Value, mask: Value | None, causal: bool) -> Value:
    outer = query.shape[:-3]
    given = [write.reshape(x, [elements(outer), *x.shape[-3:]]) for x in (query, key, value)]
    if mask is not None:
        # A mask of rank 3 belongs to the heads of an input of rank 3, and of one of rank 4 just so.
        given.append(write.with_rank(mask, 4))
    kind = CausalMaskKind.UPPER_LEFT if causal else CausalMaskKind.NONE
    y = write.add(Attention(causal=kind), *given)
    if mask is not None:
        # TensorRT does not say what it gives for a query that sees no key.
        y = write.select(_sees(write, given[3], given[0].shape[2], given[1].shape[2], causal), y, 0.0)
    return write.reshape(y, [*outer, *y.shape[1:]])


def _sees(write: Writer, mask: Value, queries: Expr, keys: Expr, causal: bool) -> Value:
    """Whether each query sees a key, as far as the mask tells; written once for all attentions that have it."""

    def made() -> Value:
        seen = mask if mask.dtype is DType.BOOL else ~mask.eq(-torch.inf)
        if causal:
            seen = seen & _lower_left(write, queries, keys)
        most = write.reduce(ReduceOperation.MAX, write.cast(seen, DType.INT32), [seen.rank - 1], keep_dims=True)
        return write.cast(most, DType.BOOL)

    return write.once(("sees a key", mask.id, causal, queries, keys), made)


def _lower_left(write: Writer, queries: Expr, keys: Expr) -> Value:
    """(queries, keys): true where the key's index is not above the query's."""
    if isinstance(queries, Num) and isinstance(keys, Num) and queries.value * keys.value <= MOST_KEPT:
        return write.constant(torch.ones(int(queries.value), int(keys.value), dtype=torch.bool).tril())
    row = write.unsqueeze(write.counting(queries), [1])
    return ~(write.unsqueeze(write.counting(keys), [0]) > row)


def _by_products(
    write: Writer, query: Value, key: Value, value: Value, mask: Value | None, causal: bool, shared: bool
) -> Value:
    """Products with a softmax between, and what hides keys added to its input.

    All of it is in the dtype of the query, float32 unless half precision was asked for: TensorRT has one kernel for all
    of it in half precision, and several where casts or choices stand between.  The softmax is computed in float32,
    whatever goes in and out.  What follows from the mask is written once for all attentions that have it.
    """
    if shared and query.rank >= 3:
        key, value = (_repeated(write, x, query.shape[-3]) for x in (key, value))
    scores = product(write, query, key, transposed=True)
    queries, keys = scores.shape[-2:]
    sees = None if mask is None else _sees(write, mask, queries, keys, causal)
    # Where all queries see the same keys a value that nobody sees is 0, and no number is infinite.
    alike = sees is not None and sees.shape[-2] == ONE
    if mask is not None or causal:
        what = ("added", None if mask is None else mask.id, causal, scores.dtype, queries, keys)
        added = write.once(what, lambda: _added(write, mask, causal, scores, sees if alike else None))
        scores = scores + added
    if sees is not None and alike:
        value = write.select(sees, value, 0.0)
    y = product(write, write.add(SoftMax(scores.rank - 1), scores), value)
    return y if sees is None or alike else write.select(sees, y, 0.0)


def _added(write: Writer, mask: Value | None, causal: bool, scores: Value, sees: Value | None) -> Value:
    """What is added to scores: the mask, and -inf where a query does not see a key; 0 where it ``sees`` none."""
    added = None
    seen = []
    if mask is not None and mask.dtype is DType.BOOL:
        seen.append(mask)
    elif mask is not None:
        added = write.cast(mask, scores.dtype)
    if causal:
        seen.append(_lower_left(write, scores.shape[-2], scores.shape[-1]))
    for one in seen:
        nothing = write.scalar(0.0, scores, one.rank)
        # No ``write.select``: where it is not -inf that is chosen but -1e38 (8.6), the softmax is the same.
        hides = write.add(Select(), one, nothing, write.scalar(-torch.inf, scores, one.rank))
        added = hides if added is None else added + hides
    assert added is not None
    return added if sees is None else write.select(sees, added, 0.0)


def _repeated(write: Writer, x: Value, heads: Expr) -> Value:
    """``x`` with each head as often, one after the other, as makes them ``heads``."""
    own = x.shape[-3]
    if own in (heads, ONE):  # one head broadcasts
        return x
    if not (isinstance(own, Num) and isinstance(heads, Num)):
        raise refuse("heads-not-known", "how many heads share a key is known only when the network runs")
    axis, times = x.rank - 3, int(heads.value // own.value)
    spread: list[Expr | int] = [*x.shape[: axis + 1], times, *x.shape[axis + 1 :]]
    y = write.broadcast_to(write.unsqueeze(x, [axis + 1]), spread)
    return write.reshape(y, [*x.shape[:axis], heads, *x.shape[axis + 1 :]])
