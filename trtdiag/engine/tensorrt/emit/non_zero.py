"""Writes NonZero."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.non_zero import NonZero


@emitter(NonZero)
def non_zero(step: Step, layer: NonZero) -> Outputs:
    """One layer, where the version builds others behind it."""
    step.require(step.dialect.target.counts, "layers behind NonZero")
    return step.place(step.dialect.add_non_zero(step.definition, step.tensor(0), layer.indices))
