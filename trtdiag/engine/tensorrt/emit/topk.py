"""Writes TopK."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network import DType, Given
from trtdiag.network.layers.topk import TopK


@emitter(TopK)
def topk(step: Step, layer: TopK) -> Outputs:
    """One layer; a vector gains a dim before and loses it after, since TensorRT sorts along one of several dims."""
    x, axis, flat = step.tensor(0), layer.axis, step.type(0).rank == 1
    dtype = step.type(0).dtype
    if flat:
        x, axis = _reshaped(step, x, (1, -1), dtype), 1
    k = 1 if isinstance(layer.k, Given) else layer.k
    operation = step.dialect.member(layer.op)
    made = step.dialect.add_topk(step.definition, x, operation, k, axis, layer.indices)
    outputs = step.place(made)
    if isinstance(layer.k, Given):
        made.set_input(1, step.tensor(1))
    if not flat:
        return outputs
    return tuple(_reshaped(step, y, (-1,), own) for y, own in zip(outputs, (dtype, layer.indices), strict=True))


def _reshaped(step: Step, x: object, sizes: tuple[int, ...], dtype: DType) -> object:
    made = step.definition.add_shuffle(x)
    (output,) = step.place(made, dtype)
    made.reshape_dims = sizes
    return output
