"""Writes layers that find elements and put them somewhere."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network import DType, Given
from trtdiag.network.layers import Gather, GatherMode, NonZero, OneHot, Scatter, ScatterMode, TopK


@emitter
def gather(step: Step, layer: Gather) -> Outputs:
    """One layer."""
    made = step.definition.add_gather_v2(*step.tensors, step.dialect.member(layer.mode))
    axis = {} if layer.mode is GatherMode.ND else {"axis": layer.axis}
    return step.place(made, **axis, num_elementwise_dims=layer.elementwise_dims)


@emitter
def scatter(step: Step, layer: Scatter) -> Outputs:
    """One layer."""
    axis = {"axis": layer.axis} if layer.mode is ScatterMode.ELEMENT else {}
    return step.place(step.definition.add_scatter(*step.tensors, step.dialect.member(layer.mode)), **axis)


@emitter
def one_hot(step: Step, layer: OneHot) -> Outputs:
    """One layer."""
    return step.place(step.definition.add_one_hot(*step.tensors, layer.axis))


@emitter
def non_zero(step: Step, layer: NonZero) -> Outputs:
    """One layer, where the version builds others behind it."""
    step.require(step.dialect.target.counts, "layers behind NonZero")
    return step.place(step.dialect.add_non_zero(step.definition, step.tensor(0), layer.indices))


@emitter
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
    return step.place(step.definition.add_shuffle(x), dtype, reshape_dims=sizes)[0]
