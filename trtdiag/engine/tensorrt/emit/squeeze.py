"""Writes Squeeze, Unsqueeze and Shape."""

from __future__ import annotations

import torch

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.squeeze import Shape, Squeeze, Unsqueeze
from trtdiag.symbolic import Num


@emitter(Squeeze)
def squeeze(step: Step, layer: Squeeze) -> Outputs:
    """One layer; 8.6 has it as a Shuffle."""
    if layer.kind not in step.dialect.target.layers:
        return _reshaped(step)
    axes = step.constant(torch.tensor(sorted(layer.axes), dtype=torch.int32))
    return step.place(step.definition.add_squeeze(step.tensor(0), axes))


@emitter(Unsqueeze)
def unsqueeze(step: Step, layer: Unsqueeze) -> Outputs:
    """One layer; 8.6 has it as a Shuffle."""
    if layer.kind not in step.dialect.target.layers:
        return _reshaped(step)
    axes = step.constant(torch.tensor(sorted(layer.axes), dtype=torch.int32))
    return step.place(step.definition.add_unsqueeze(step.tensor(0), axes))


@emitter(Shape)
def shape(step: Step, layer: Shape) -> Outputs:
    """One layer, and a cast where the version gives the other integers."""
    made = step.definition.add_shape(step.tensor(0))
    outputs = step.place_untyped(made)
    if layer.to is step.dialect.sizes:
        return outputs
    return step.place_untyped(step.definition.add_cast(outputs[0], step.dialect.dtype(layer.to)))


def _reshaped(step: Step) -> Outputs:
    """A Shuffle to the output's shape.

    Where more than one size is not a number, each is taken from the input's shape, in order: a static reshape can say
    only one of them.
    """
    before, after = step.type(0), step.made_type()
    made = step.definition.add_shuffle(step.tensor(0))
    outputs = step.place(made)
    sizes = [size.value if isinstance(size, Num) else -1 for size in after.shape]
    if sizes.count(-1) <= 1:
        made.zero_is_placeholder = False
        made.reshape_dims = tuple(sizes)
        return outputs
    known = step.place_untyped(step.definition.add_shape(step.tensor(0)))[0]
    # A size is where it was, or it is one of the new ones, which are 1: that stands after the last of the input's.
    whole = step.definition.add_concatenation([known, step.constant(torch.ones(1, dtype=torch.int32))])
    sources = step.place_untyped(whole)[0]
    whole.axis = 0
    order = torch.tensor(_sources(step, before.rank), dtype=torch.int32)
    gather = step.dialect.trt.GatherMode.DEFAULT
    taken = step.definition.add_gather_v2(sources, step.constant(order), gather)
    new = step.place_untyped(taken)[0]
    taken.axis = 0
    made.zero_is_placeholder = False
    made.set_input(1, new)
    return outputs


def _sources(step: Step, rank: int) -> list[int]:
    """For each dim of the output the dim of the input that it is; ``rank`` for a new one."""
    layer = step.placed.layer
    if isinstance(layer, Squeeze):
        return [axis for axis in range(rank) if axis not in layer.axes]
    assert isinstance(layer, Unsqueeze)
    own = iter(range(rank))
    return [rank if axis in layer.axes else next(own) for axis in range(rank + len(layer.axes))]
