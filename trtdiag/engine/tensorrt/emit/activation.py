"""Writes Activation and ParametricReLU."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.activation import Activation, ParametricReLU


@emitter(Activation)
def activation(step: Step, layer: Activation) -> Outputs:
    """One layer; alpha and beta have no meaning where they are 0."""
    made = step.definition.add_activation(step.tensor(0), step.dialect.member(layer.op))
    outputs = step.place(made)
    made.alpha = layer.alpha
    made.beta = layer.beta
    return outputs


@emitter(ParametricReLU)
def parametric_relu(step: Step, layer: ParametricReLU) -> Outputs:
    """One layer."""
    del layer
    return step.place(step.definition.add_parametric_relu(step.tensor(0), step.tensor(1)))
