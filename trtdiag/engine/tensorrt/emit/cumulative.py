"""Writes Cumulative."""

from __future__ import annotations

import torch

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.cumulative import Cumulative


@emitter(Cumulative)
def cumulative(step: Step, layer: Cumulative) -> Outputs:
    """One layer, whose axis is a constant input."""
    axis = step.constant(torch.tensor(layer.axis, dtype=torch.int32))
    operation = step.dialect.trt.CumulativeOperation.SUM
    made = step.definition.add_cumulative(step.tensor(0), axis, operation, layer.exclusive, layer.reverse)
    return step.place(made)
