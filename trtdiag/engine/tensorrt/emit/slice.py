"""Writes Slice."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network import Given
from trtdiag.network.layers.slice import SampleMode, Slice

_FILL = 4
"""The layer's input that brings the value of FILL; start, size and stride are 1 to 3."""


@emitter(Slice)
def slice_(step: Step, layer: Slice) -> Outputs:
    """One layer; what comes as an input stands as zeros or ones among the attributes."""
    rank = step.type(0).rank
    static = [
        (default,) * rank if isinstance(attribute, Given) else attribute
        for attribute, default in ((layer.start, 0), (layer.size, 0), (layer.stride, 1))
    ]
    made = step.definition.add_slice(step.tensor(0), *static)
    outputs = step.place(made)
    made.mode = step.dialect.member(layer.mode)
    read = 1
    for place, attribute in enumerate((layer.start, layer.size, layer.stride), start=1):
        if isinstance(attribute, Given):
            made.set_input(place, step.tensor(read))
            read += 1
    if layer.mode is SampleMode.FILL and read < step.count:
        made.set_input(_FILL, step.tensor(read))
    return outputs
