"""Writes Quantize, Dequantize and DynamicQuantize."""

from __future__ import annotations

from typing import Any

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.quantize import Dequantize, DynamicQuantize, Quantize


@emitter(Quantize)
def quantize(step: Step, layer: Quantize) -> Outputs:
    """One layer."""
    return _along(step, layer, step.definition.add_quantize)


@emitter(Dequantize)
def dequantize(step: Step, layer: Dequantize) -> Outputs:
    """One layer."""
    return _along(step, layer, step.definition.add_dequantize)


@emitter(DynamicQuantize)
def dynamic_quantize(step: Step, layer: DynamicQuantize) -> Outputs:
    """One layer; the scale of the scales is a further input of it."""
    to, scales = step.dialect.dtype(layer.to), step.dialect.dtype(layer.scale_dtype)
    made = step.definition.add_dynamic_quantize(step.tensor(0), layer.axis, layer.block_size, to, scales)
    outputs = step.place(made)
    if step.count == 2:
        made.set_input(1, step.tensor(1))
    return outputs


def _along(step: Step, layer: Quantize | Dequantize, add: Any) -> Outputs:
    made = add(step.tensor(0), step.tensor(1), step.dialect.dtype(layer.to))
    outputs = step.place(made)
    # TensorRT tells blocks by the shape of the scales.
    if step.type(1).rank == 1:
        made.axis = layer.axis
    return outputs
