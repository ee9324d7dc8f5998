"""Writes Cast and Identity."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.cast import Cast, Identity


@emitter(Cast)
def cast(step: Step, layer: Cast) -> Outputs:
    """One layer; it says its type itself."""
    return step.place_untyped(step.definition.add_cast(step.tensor(0), step.dialect.dtype(layer.to)))


@emitter(Identity)
def identity(step: Step, layer: Identity) -> Outputs:
    """One layer."""
    del layer
    return step.place(step.definition.add_identity(step.tensor(0)))
