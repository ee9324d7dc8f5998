"""Writes layers of one element at a time: functions, choices, other dtypes, quantized numbers."""

from __future__ import annotations

import torch

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.activation import Activation, ParametricReLU
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.elementwise import ElementWise, Select
from trtdiag.network.layers.quantize import Dequantize, DynamicQuantize, Quantize
from trtdiag.network.layers.unary import Unary


@emitter
def activation(step: Step, layer: Activation) -> Outputs:
    """One layer; alpha and beta have no meaning where they are 0."""
    made = step.definition.add_activation(step.tensor(0), step.dialect.member(layer.op))
    return step.place(made, alpha=layer.alpha, beta=layer.beta)


@emitter
def operation(step: Step, layer: Unary | ElementWise) -> Outputs:
    """One layer."""
    add = step.definition.add_unary if isinstance(layer, Unary) else step.definition.add_elementwise
    return step.place(add(*step.tensors, step.dialect.member(layer.op)))


_OF_TENSORS = {ParametricReLU: "add_parametric_relu", Select: "add_select", Identity: "add_identity"}


@emitter
def of_tensors(step: Step, layer: ParametricReLU | Select | Identity) -> Outputs:
    """One layer, which has nothing but its inputs."""
    return step.place(getattr(step.definition, _OF_TENSORS[type(layer)])(*step.tensors))


@emitter
def cast(step: Step, layer: Cast) -> Outputs:
    """One layer; it says its type itself."""
    return step.place_untyped(step.definition.add_cast(step.tensor(0), step.dialect.dtype(layer.to)))


@emitter
def quantize(step: Step, layer: Quantize | Dequantize) -> Outputs:
    """One layer; TensorRT tells blocks by the shape of the scales.

    8.6 has it for int8 alone, and takes scales of float32 whatever they multiply.
    """
    add = step.definition.add_quantize if isinstance(layer, Quantize) else step.definition.add_dequantize
    axis = {"axis": layer.axis} if step.type(1).rank == 1 else {}
    if step.dialect.strongly_typed:
        return step.place(add(*step.tensors, step.dialect.dtype(layer.to)), **axis)
    scale = step.weight(1)
    step.require(scale is not None, "scales that are known only when it runs")
    assert scale is not None
    given = step.tensor(1) if scale.dtype is torch.float32 else step.constant(scale.float())
    return step.place_untyped(add(step.tensor(0), given), **axis)


@emitter
def dynamic_quantize(step: Step, layer: DynamicQuantize) -> Outputs:
    """One layer; the scale of the scales is a further input of it."""
    to, scales = step.dialect.dtype(layer.to), step.dialect.dtype(layer.scale_dtype)
    made = step.definition.add_dynamic_quantize(step.tensor(0), layer.axis, layer.block_size, to, scales)
    outputs = step.place(made)
    if step.count == 2:
        made.set_input(1, step.tensor(1))
    return outputs
