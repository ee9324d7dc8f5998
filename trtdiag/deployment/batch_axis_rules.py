"""For each kind of layer: where the samples lie in its output, given where they lie in its inputs.

A kind without a rule is taken to couple samples.  ``tests/deployment`` holds each rule to a run of the layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from trtdiag.deployment.batch_axis import FREE, Batch, CoupledError, Free, Rows, Sizes, State, need
from trtdiag.network import INPUT, Layer, Tensor
from trtdiag.network.layers.activation import Activation, ParametricReLU
from trtdiag.network.layers.attention import Attention, RotaryEmbedding
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.constant import Fill
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.layers.elementwise import ElementWise, Select
from trtdiag.network.layers.gather import Gather, GatherMode, OneHot
from trtdiag.network.layers.loop import Loop
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.pooling import Pooling
from trtdiag.network.layers.quantize import Dequantize, DynamicQuantize, Quantize
from trtdiag.network.layers.reduce import Cumulative, Reduce, TopK
from trtdiag.network.layers.resize import GridSample, Resize
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.network.layers.squeeze import Squeeze, Unsqueeze
from trtdiag.network.layers.unary import Unary
from trtdiag.symbolic import ONE, Num


@dataclass(frozen=True)
class Seen:
    """A layer's inputs and outputs: what they are, and where the samples lie in the inputs."""

    states: Sequence[State]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    batch: Batch

    def rows(self, index: int) -> Rows:
        """Those of an input that must have samples."""
        state = self.states[index]
        if not isinstance(state, Rows):
            raise CoupledError(f"its input {index} has no samples where another one has")
        return state

    def free(self, *indices: int) -> None:
        """Refuse inputs in which samples, or their number, play a part."""
        for index in indices:
            if index < len(self.states):
                state = self.states[index]
                need(isinstance(state, Free), f"its input {index} {_words(state)}")


def _words(state: State) -> str:
    return "follows from the size of the batch" if isinstance(state, Sizes) else "is another one for each sample"


@singledispatch
def rows_of(layer: Layer, seen: Seen) -> State | tuple[State, ...]:
    """Where the samples lie in the outputs of a layer, of which some input has samples or numbers of the batch.

    A tuple has a state for each output.

    Raises:
        CoupledError: They are not shown to stay apart.
    """
    del seen
    raise CoupledError(f"nothing is known of {layer.kind}")


def _aligned(seen: Seen, indices: Sequence[int]) -> Rows:
    """The rows of inputs of equal rank that are walked together; one without samples is 1 wide along them."""
    sizes = any(isinstance(seen.states[index], Sizes) for index in indices)
    need(not sizes, "numbers that follow from the size of the batch enter the results")
    found = [state for index in indices if isinstance(state := seen.states[index], Rows)]
    need(bool(found), "it has no samples")
    need(all(state == found[0] for state in found), "samples lie along different dims of its inputs")
    for index in indices:
        if isinstance(seen.states[index], Free):
            shape = seen.inputs[index].shape
            need(shape[found[0].axis] == ONE, f"its input {index} has no samples along their dim")
    return found[0]


@rows_of.register(Activation)
@rows_of.register(ParametricReLU)
@rows_of.register(Unary)
@rows_of.register(Cast)
@rows_of.register(Identity)
@rows_of.register(ElementWise)
@rows_of.register(Select)
def _elementwise(layer: Layer, seen: Seen) -> State:
    return _aligned(seen, range(len(seen.states)))


@rows_of.register(Quantize)
@rows_of.register(Dequantize)
def _scaled(layer: Any, seen: Seen) -> State:
    seen.free(1)
    rows, scale = seen.rows(0), seen.inputs[1]
    blocks = scale.rank == seen.inputs[0].rank and scale.rank > 1
    along = scale.shape[rows.axis] == ONE if blocks else scale.rank == 0 or layer.axis != rows.axis
    need(along, "its scales go along the samples")
    return rows


def _apart(axis: int, seen: Seen) -> Rows:
    """The rows of the first input, which are not along an axis that the layer works along."""
    rows = seen.rows(0)
    need(rows.axis != axis, "it works along the dim of the samples")
    return rows


@rows_of.register(SoftMax)
@rows_of.register(Cumulative)
def _along(layer: Any, seen: Seen) -> State:
    return _apart(layer.axis, seen)


@rows_of.register(DynamicQuantize)
@rows_of.register(TopK)
def _along_beside_a_number(layer: Any, seen: Seen) -> State:
    seen.free(1)
    return _apart(layer.axis, seen)


@rows_of.register(Convolution)
@rows_of.register(Deconvolution)
@rows_of.register(Pooling)
def _windows(layer: Layer, seen: Seen) -> State:
    seen.free(1, 2)
    rows = seen.rows(0)
    need(rows.axis == 0, "samples are not along its first dim")
    return rows


@rows_of.register(Resize)
def _resize(layer: Resize, seen: Seen) -> State:
    rows = seen.rows(0)  # a second input says the sizes, which are compared here
    need(seen.inputs[0].shape[rows.axis] == seen.outputs[0].shape[rows.axis], "it resizes the dim of the samples")
    return rows


@rows_of.register
def _grid_sample(layer: GridSample, seen: Seen) -> State:
    rows = seen.rows(0)
    need(rows.axis == 0 and seen.rows(1) == rows, "the samples of image and grid are not along the first dim")
    return rows


@rows_of.register
def _normalization(layer: Normalization, seen: Seen) -> State:
    rows = seen.rows(0)
    need(rows.axis not in layer.axes, "its mean goes over the samples")
    need(layer.groups == 1 or rows.axis == 0, "samples are not along its first dim")
    seen.free(1, 2)
    return rows


@rows_of.register
def _reduce(layer: Reduce, seen: Seen) -> State:
    rows = seen.rows(0)
    need(rows.axis not in layer.axes, f"its {layer.op.value} goes over the samples")
    gone = 0 if layer.keep_dims else sum(axis < rows.axis for axis in layer.axes)
    return replace(rows, axis=rows.axis - gone)


@rows_of.register
def _squeeze(layer: Squeeze, seen: Seen) -> State:
    rows = seen.rows(0)
    need(rows.axis not in layer.axes, "it takes the dim of the samples out")
    return replace(rows, axis=rows.axis - sum(axis < rows.axis for axis in layer.axes))


@rows_of.register
def _unsqueeze(layer: Unsqueeze, seen: Seen) -> State:
    rows = seen.rows(0)
    kept = [axis for axis in range(seen.outputs[0].rank) if axis not in layer.axes]
    return replace(rows, axis=kept[rows.axis])


@rows_of.register
def _concatenation(layer: Concatenation, seen: Seen) -> State:
    rows = _aligned(seen, range(len(seen.states)))
    need(rows.axis != layer.axis, "it joins along the dim of the samples")
    return rows


@rows_of.register
def _fill(layer: Fill, seen: Seen) -> State:
    shape, batch = seen.outputs[0].shape, seen.batch
    axes = [axis for axis, size in enumerate(shape) if batch.in_(size)]
    seen.free(*range(int(layer.shape is INPUT), len(seen.states)))
    if not axes:
        return FREE
    need(len(axes) == 1, "several of its dims follow from the size of the batch")
    steps = layer.beta if isinstance(layer.beta, tuple) else seen.inputs[-1].values
    need(steps is not None and steps[axes[0]] in (0, Num(0)), "it counts along the samples")
    return Rows(axes[0], batch.factor(shape[axes[0]]))


@rows_of.register
def _gather(layer: Gather, seen: Seen) -> State:
    (x, indices), walked = seen.states, layer.elementwise_dims
    need(not isinstance(x, Sizes) and not isinstance(indices, Sizes), "it looks up by the size of the batch")
    if isinstance(x, Rows) and isinstance(indices, Rows):
        element = layer.mode is GatherMode.ELEMENT and x.axis != layer.axis
        need(x == indices and (element or x.axis < walked), "a sample may look into another one")
        return x
    if isinstance(indices, Rows):
        need(layer.mode is not GatherMode.ELEMENT and indices.axis >= walked, "what it looks into has no samples")
        if layer.mode is GatherMode.ND:
            need(indices.axis < seen.inputs[1].rank - 1, "samples are along the positions")
            return indices
        return replace(indices, axis=layer.axis + indices.axis - walked)
    assert isinstance(x, Rows)
    need(layer.mode is GatherMode.DEFAULT and walked == 0 and x.axis != layer.axis, "it picks among the samples")
    return x if x.axis < layer.axis else replace(x, axis=x.axis - 1 + seen.inputs[1].rank)


@rows_of.register
def _one_hot(layer: OneHot, seen: Seen) -> State:
    seen.free(1, 2)
    rows = seen.rows(0)
    return rows if rows.axis < layer.axis else replace(rows, axis=rows.axis + 1)


@rows_of.register
def _attention(layer: Attention, seen: Seen) -> State:
    last = len(seen.states)
    masked = layer.has_mask(last)
    seen.free(*range(3 + masked, last))
    rows = _aligned(seen, range(3 + masked))
    need(rows.axis == 0 and all(isinstance(seen.states[index], Rows) for index in range(3)), "it mixes samples")
    return rows


@rows_of.register
def _rotary(layer: RotaryEmbedding, seen: Seen) -> State:
    rows = seen.rows(0)
    need(rows.axis == 0, "samples are not along its first dim")
    for index in (3,) if len(seen.states) == 4 else (1, 2):
        need(seen.rows(index) == rows, "its angles are not those of each sample")
    if len(seen.states) == 4:
        seen.free(1, 2)
    return rows


@rows_of.register
def _loop(layer: Loop, seen: Seen) -> tuple[State, ...]:
    """A step works sample by sample, so what is carried from step to step is each sample's own."""
    seen.free(1, 2)
    gates = seen.rows(0)
    need(gates.axis == 1, "it goes from one sample to the next")
    carried = replace(gates, axis=0)
    for index in range(3, len(seen.states)):
        need(seen.rows(index) == carried, "the samples of its states are not those of its gates")
    return (gates, *(carried for _ in seen.states[3:]))


@rows_of.register
def _matmul(layer: MatrixMultiply, seen: Seen) -> State:
    left, right = (_operand(seen, index, op) for index, op in enumerate((layer.op0, layer.op1)))
    before = seen.inputs[0].rank - (1 if layer.op0 is MatrixOperation.VECTOR else 2)
    if left == "outer" and isinstance(seen.states[1], Free):
        return replace(seen.rows(0), axis=before)
    if right == "outer" and isinstance(seen.states[0], Free):
        return replace(seen.rows(1), axis=before + (layer.op0 is not MatrixOperation.VECTOR))
    need("inner" not in (left, right), "it sums over the samples")
    need("outer" not in (left, right), "it makes pairs of samples")
    return _aligned(seen, (0, 1))


def _operand(seen: Seen, index: int, op: MatrixOperation) -> str:
    """Where the samples of an operand are: in the dims ``before``, those that stay (``outer``) or are summed over."""
    state = seen.states[index]
    if not isinstance(state, Rows):
        return ""
    rank = seen.inputs[index].rank
    if state.axis < rank - (1 if op is MatrixOperation.VECTOR else 2):
        return "before"
    if op is MatrixOperation.VECTOR:
        return "inner"
    summed = rank - 1 if (index == 0) == (op is MatrixOperation.NONE) else rank - 2
    return "inner" if state.axis == summed else "outer"
