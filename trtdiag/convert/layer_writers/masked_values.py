"""Values at the places of a mask, without asking how many they are."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.indices import fitted
from trtdiag.convert.layer_writers.reduction import running_sum
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network import NUMBERS, DType, Value
from trtdiag.shapes.op_call import Shape
from trtdiag.shapes.shape_constraints import elements
from trtdiag.shapes.symbols import is_backed
from trtdiag.symbolic import Num, Sym, sub, to_text


def replaced(write: Writer, x: Value, mask: Value, value: Value) -> Value:
    """``value`` where the mask holds, else ``x``."""
    return write.select(write.cast(mask, DType.BOOL), write.cast(value, x.dtype), x)


def only_mask(call: Call) -> tuple[int, Value] | None:
    """The mask, and the first dim that it covers, where it is the only index; ``None`` where no index is a mask."""
    given = [(axis, index) for axis, index in enumerate(call.tensors_or_none("indices")) if index is not None]
    if not any(index.dtype is DType.BOOL for _, index in given):
        return None
    if len(given) > 1:
        raise refuse("mask-among-indices", "it indexes with a mask beside other indices")
    return given[0]


def one_to_each(x: Value, mask: tuple[int, Value], values: Value) -> Shape | None:
    """The shape of ``x[mask]`` where ``values`` has as many elements as the data says; ``None`` where it has not."""
    first, places = mask
    behind = x.shape[first + places.rank :]
    if values.rank <= len(behind):
        return None
    count = values.shape[values.rank - len(behind) - 1]
    if not isinstance(count, Sym) or is_backed(count.name):
        return None
    return (*x.shape[:first], count, *behind)


def chosen_by_mask(call: Call, x: Value, mask: tuple[int, Value], values: Value) -> Value:
    """``x`` with the same values at every place of the mask."""
    write, (first, places) = call.write, mask
    after = x.rank - first - places.rank
    if values.rank > first + 1 + after or (values.rank > after and values.shape[-after - 1] != Num(1)):
        raise refuse(
            "mask-with-values",
            f"it puts {to_text(elements(values.shape))} values to the places of a mask, one to each",
            "use torch.where with values for every place, or torch.masked_scatter",
        )
    if values.rank > after:  # between the dims before and after the mask stands a 1 for its places
        before = list(values.shape[: values.rank - after - 1])
        values = write.reshape(values, [*before, *[1] * places.rank, *values.shape[values.rank - after :]])
    if values.rank:
        values = fitted(write, values, x.shape[x.rank - values.rank :])
    covered = write.unsqueeze(places, range(places.rank, places.rank + after)) if after else places
    if call.flag("accumulate"):
        if x.dtype not in NUMBERS:
            raise refuse("small-integers", f"it adds up in {x.dtype.value}; no layer computes in it")
        values = x + values
    return replaced(write, x, fitted(write, covered, x.shape[first:]), values)


def in_turn(write: Writer, mask: Value, source: Value) -> Value:
    """For each place of a flat mask (n) that holds: the next element of a flat source (m)."""
    count = running_sum(write, write.cast(mask, write.index), 0)
    last = write.sizes.element(sub(source.shape[0], 1))
    return write.gather(source, (count - 1).maximum(0).minimum(last), 0)
