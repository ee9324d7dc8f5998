"""Writes Fill; a Constant is written where it is read (see ``emission``)."""

from __future__ import annotations

import torch

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network import Given
from trtdiag.network.layers.constant import Fill


@emitter(Fill)
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
