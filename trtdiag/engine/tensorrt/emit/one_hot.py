"""Writes OneHot."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.one_hot import OneHot


@emitter(OneHot)
def one_hot(step: Step, layer: OneHot) -> Outputs:
    """One layer."""
    return step.place(step.definition.add_one_hot(step.tensor(0), step.tensor(1), step.tensor(2), layer.axis))
