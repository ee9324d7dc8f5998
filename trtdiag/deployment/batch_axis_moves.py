"""Where the samples lie after layers that move elements: shuffles and slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trtdiag.deployment.batch_axis import FREE, CoupledError, Rows, State, need
from trtdiag.deployment.batch_axis_rules import Seen, rows_of
from trtdiag.network import Given
from trtdiag.network.layers import SampleMode, Shuffle, Slice
from trtdiag.symbolic import ONE, Expr, Num, as_expr


@rows_of.register
def _shuffle(layer: Shuffle, seen: Seen) -> State:
    if not isinstance(seen.states[0], Rows):
        seen.free(0)
        return FREE  # the second input says the new shape, which has as many elements
    rows, shape = seen.states[0], tuple(seen.inputs[0].shape)
    if layer.first is not None:
        rows = replace(rows, axis=layer.first.index(rows.axis))
        shape = tuple(shape[axis] for axis in layer.first)
    if layer.reshape is None:
        between = shape
    else:
        after = seen.outputs[0].shape
        order = layer.second or tuple(range(len(after)))
        between = tuple(after[order.index(axis)] for axis in range(len(after)))
        rows = _reshaped(rows, shape, between, seen)
    return replace(rows, axis=layer.second.index(rows.axis)) if layer.second is not None else rows


def _reshaped(rows: Rows, before: Sequence[Expr], after: Sequence[Expr], seen: Seen) -> Rows:
    """The samples in a new shape, where each has its elements at the same places in row-major order as before.

    How many elements come before all samples, and how many a sample has, is the same before and after.
    """
    facts, batch = seen.batch.facts, seen.batch
    axis = next((axis for axis, size in enumerate(after) if batch.in_(size)), None)
    if axis is None:
        raise CoupledError("no dim of its new shape is that of the samples")
    need(not any(map(batch.in_, after[axis + 1 :])), "several new dims follow from the size of the batch")
    part = batch.factor(after[axis])
    outer = facts.quotient([*before[: rows.axis], rows.outer], after[:axis])
    inner = None if outer is None else facts.quotient([part], [outer])
    if outer is None or inner is None:
        raise CoupledError("the samples come apart in its new shape")
    return Rows(axis, inner, outer)


@rows_of.register
def _slice(layer: Slice, seen: Seen) -> State:
    waiting = list(range(1, len(seen.states)))
    parts: list[Sequence[Expr] | None] = []
    for attribute in (layer.start, layer.size, layer.stride):
        if isinstance(attribute, Given):
            index = waiting.pop(0)
            parts.append(seen.inputs[index].values)
            if seen.inputs[index].values is None:  # one place for all samples, known when it runs
                seen.free(index)
        else:
            parts.append([as_expr(number) for number in attribute])
    start, size, stride = parts
    if layer.mode is SampleMode.FILL:
        seen.free(*waiting)
    if size is None:
        raise CoupledError("its size is only known when it runs")
    x = seen.states[0]
    axis = x.axis if isinstance(x, Rows) else _spread_along(seen, size)
    for other in range(len(size)):
        if other != axis:
            moved = [part[other] for part in (start, size, stride) if part is not None]
            need(not any(map(seen.batch.in_, moved)), "where it cuts follows from the size of the batch")
    if isinstance(x, Rows):
        whole = start is not None and start[x.axis] == Num(0) and stride is not None and stride[x.axis] == ONE
        need(whole and seen.batch.facts.equal(size[x.axis], seen.inputs[0].shape[x.axis]), "it cuts among the samples")
        return x
    seen.free(0)
    if axis is None:
        return FREE
    need(stride is not None and stride[axis] == Num(0), "it cuts by the size of the batch")
    need(start is not None and not seen.batch.in_(start[axis]), "where it cuts follows from the size of the batch")
    return Rows(axis, seen.batch.factor(size[axis]))


def _spread_along(seen: Seen, size: Sequence[Expr]) -> int | None:
    """The dim along which something without samples is repeated for each of them."""
    return next((axis for axis, each in enumerate(size) if seen.batch.in_(each)), None)
