"""Writes layers that give elements another place; a Constant is written where it is read (see ``emission``)."""

from __future__ import annotations

import torch

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network import Given
from trtdiag.network.layers import Concatenation, Fill, SampleMode, Shape, Shuffle, Slice, Squeeze, Unsqueeze
from trtdiag.symbolic import Num


@emitter
def shuffle(step: Step, layer: Shuffle) -> Outputs:
    """One layer; what is not asked for is not set."""
    made = step.definition.add_shuffle(step.tensor(0))
    outputs = step.place(made)
    permutation = step.dialect.trt.Permutation
    if layer.first is not None:
        made.first_transpose = permutation(list(layer.first))
    made.zero_is_placeholder = layer.zero_is_placeholder
    if isinstance(layer.reshape, Given):
        made.set_input(1, step.tensor(1))
    elif layer.reshape is not None:
        made.reshape_dims = layer.reshape
    if layer.second is not None:
        made.second_transpose = permutation(list(layer.second))
    return outputs


_FILL = 4
"""The layer's input that brings the value of FILL; start, size and stride are 1 to 3."""


@emitter
def slice_(step: Step, layer: Slice) -> Outputs:
    """One layer; what comes as an input stands as zeros or ones among the attributes."""
    rank = step.type(0).rank
    static = [
        (default,) * rank if isinstance(attribute, Given) else attribute
        for attribute, default in ((layer.start, 0), (layer.size, 0), (layer.stride, 1))
    ]
    made = step.definition.add_slice(step.tensor(0), *static)
    outputs = step.place(made, mode=layer.mode)
    read = 1
    for place, attribute in enumerate((layer.start, layer.size, layer.stride), start=1):
        if isinstance(attribute, Given):
            made.set_input(place, step.tensor(read))
            read += 1
    if layer.mode is SampleMode.FILL and read < step.count:
        made.set_input(_FILL, step.tensor(read))
    return outputs


@emitter
def squeeze(step: Step, layer: Squeeze | Unsqueeze) -> Outputs:
    """One layer; 8.6 has it as a Shuffle."""
    if layer.kind not in step.dialect.target.layers:
        return _reshaped(step)
    add = step.definition.add_squeeze if isinstance(layer, Squeeze) else step.definition.add_unsqueeze
    axes = step.constant(torch.tensor(sorted(layer.axes), dtype=torch.int32))
    return step.place(add(step.tensor(0), axes))


@emitter
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
    sizes = [size.value if isinstance(size, Num) else -1 for size in after.shape]
    if sizes.count(-1) <= 1:
        return step.place(made, zero_is_placeholder=False, reshape_dims=tuple(sizes))
    outputs = step.place(made, zero_is_placeholder=False)
    known = step.place_untyped(step.definition.add_shape(step.tensor(0)))[0]
    # A size is where it was, or it is one of the new ones, which are 1: that stands after the last of the input's.
    whole = step.definition.add_concatenation([known, step.constant(torch.ones(1, dtype=torch.int32))])
    sources = step.place_untyped(whole, axis=0)[0]
    order = torch.tensor(_sources(step, before.rank), dtype=torch.int32)
    gather = step.dialect.trt.GatherMode.DEFAULT
    taken = step.definition.add_gather_v2(sources, step.constant(order), gather)
    made.set_input(1, step.place_untyped(taken, axis=0)[0])
    return outputs


def _sources(step: Step, rank: int) -> list[int]:
    """For each dim of the output the dim of the input that it is; ``rank`` for a new one."""
    layer = step.placed.layer
    if isinstance(layer, Squeeze):
        return [axis for axis in range(rank) if axis not in layer.axes]
    assert isinstance(layer, Unsqueeze)
    own = iter(range(rank))
    return [rank if axis in layer.axes else next(own) for axis in range(rank + len(layer.axes))]


@emitter
def concatenation(step: Step, layer: Concatenation) -> Outputs:
    """One layer."""
    return step.place(step.definition.add_concatenation(step.tensors), axis=layer.axis)


@emitter
def fill(step: Step, layer: Fill) -> Outputs:
    """One layer with alpha and beta as inputs: static ones are of float64, and 8.6 has a static beta of one dim only.

    An output without dims is alpha: there is nothing to count along.
    """
    rank = step.made_type().rank
    if not isinstance(layer.alpha, Given) and not isinstance(layer.beta, Given):
        alpha = step.constant(torch.tensor(layer.alpha, dtype=layer.dtype.torch))
        if rank == 0:
            return (alpha,)
        beta = step.constant(torch.tensor(layer.beta, dtype=layer.dtype.torch))
    else:
        alpha = step.tensor(step.count - 2)
        if rank == 0:
            return step.place(step.definition.add_identity(alpha))
        beta = step.tensor(step.count - 1)
    shape = (0,) * rank if isinstance(layer.shape, Given) else layer.shape
    made = step.dialect.add_fill(step.definition, shape, layer.dtype)
    outputs = step.place_untyped(made)
    if isinstance(layer.shape, Given):
        made.set_input(0, step.tensor(0))
    made.set_input(1, alpha)
    made.set_input(2, beta)
    return outputs
