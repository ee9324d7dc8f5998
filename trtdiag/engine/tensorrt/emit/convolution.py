"""Writes Convolution and Deconvolution."""

from __future__ import annotations

from typing import Any

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.symbolic import Num


@emitter(Convolution)
def convolution(step: Step, layer: Convolution) -> Outputs:
    """One layer."""
    return _windowed(step, layer, step.definition.add_convolution_nd)


@emitter(Deconvolution)
def deconvolution(step: Step, layer: Deconvolution) -> Outputs:
    """One layer."""
    return _windowed(step, layer, step.definition.add_deconvolution_nd)


def _windowed(step: Step, layer: Convolution | Deconvolution, add: Any) -> Outputs:
    """Kernel and bias as weights where they are constants: TensorRT fuses and rearranges those."""
    maps = step.made_type().shape[1]
    window = [size.value for size in step.type(1).shape[2:] if isinstance(size, Num)]
    step.require(isinstance(maps, Num), "convolution whose number of output channels is known only when it runs")
    assert isinstance(maps, Num)
    arguments = [step.tensor(0), maps.value, window, step.weights(1)]
    if step.count == 3 and step.weight(2) is not None:
        arguments.append(step.weights(2))
    made = add(*arguments)
    outputs = step.place(made)
    made.stride_nd = layer.stride
    made.pre_padding = layer.pre_padding
    made.post_padding = layer.post_padding
    made.dilation_nd = layer.dilation
    made.num_groups = layer.groups
    for index in range(1, step.count):
        if step.weight(index) is None:
            made.set_input(index, step.tensor(index))
    return outputs
