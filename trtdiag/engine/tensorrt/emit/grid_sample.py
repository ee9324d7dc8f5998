"""Writes GridSample."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.grid_sample import GridSample


@emitter(GridSample)
def grid_sample(step: Step, layer: GridSample) -> Outputs:
    """One layer."""
    made = step.definition.add_grid_sample(step.tensor(0), step.tensor(1))
    outputs = step.place(made)
    made.interpolation_mode = step.dialect.member(layer.mode)
    made.align_corners = layer.align_corners
    made.sample_mode = step.dialect.member(layer.sample)
    return outputs
