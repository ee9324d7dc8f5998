"""Writes Resize."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network import Given
from trtdiag.network.layers.resize import InterpolationMode, Resize


@emitter(Resize)
def resize(step: Step, layer: Resize) -> Outputs:
    """One layer, to a size, by scales, or to a size that is an input."""
    made = step.definition.add_resize(step.tensor(0))
    outputs = step.place(made)
    made.resize_mode = step.dialect.member(layer.mode)
    made.coordinate_transformation = step.dialect.member(layer.coordinates)
    made.selector_for_single_pixel = step.dialect.member(layer.selector)
    if layer.mode is InterpolationMode.NEAREST:
        made.nearest_rounding = step.dialect.member(layer.rounding)
    if layer.mode is InterpolationMode.CUBIC:
        made.cubic_coeff = layer.cubic_coeff
        made.exclude_outside = layer.exclude_outside
    if isinstance(layer.size, Given):
        made.set_input(1, step.tensor(1))
    elif layer.size is not None:
        made.shape = layer.size
    else:
        made.scales = layer.scales
    return outputs
