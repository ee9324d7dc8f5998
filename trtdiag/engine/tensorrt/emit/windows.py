"""Writes layers that look at neighbours in space."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network import Given
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.layers.pooling import Pooling, PoolingType
from trtdiag.network.layers.resize import GridSample, InterpolationMode, Resize
from trtdiag.symbolic import Num


@emitter
def convolution(step: Step, layer: Convolution | Deconvolution) -> Outputs:
    """One layer, kernel and bias as weights where they are constants: TensorRT fuses and rearranges those."""
    add = step.definition.add_convolution_nd
    if isinstance(layer, Deconvolution):
        add = step.definition.add_deconvolution_nd
    maps = step.made_type().shape[1]
    window = [size.value for size in step.type(1).shape[2:] if isinstance(size, Num)]
    step.require(isinstance(maps, Num), "convolution whose number of output channels is known only when it runs")
    assert isinstance(maps, Num)
    arguments = [step.tensor(0), maps.value, window, step.weights(1)]
    if step.count == 3 and step.weight(2) is not None:
        arguments.append(step.weights(2))
    made = add(*arguments)
    padding = {"pre_padding": layer.pre_padding, "post_padding": layer.post_padding}
    outputs = step.place(made, stride_nd=layer.stride, **padding, dilation_nd=layer.dilation, num_groups=layer.groups)
    for index in range(1, step.count):
        if step.weight(index) is None:
            made.set_input(index, step.tensor(index))
    return outputs


@emitter
def pooling(step: Step, layer: Pooling) -> Outputs:
    """One layer."""
    made = step.definition.add_pooling_nd(step.tensor(0), step.dialect.member(layer.op), layer.window)
    padding = {"pre_padding": layer.pre_padding, "post_padding": layer.post_padding}
    outputs = step.place(made, stride_nd=layer.stride, **padding, padding_mode=layer.padding_mode)
    if layer.op is PoolingType.AVERAGE:
        made.average_count_excludes_padding = layer.average_count_excludes_padding
    return outputs


@emitter
def resize(step: Step, layer: Resize) -> Outputs:
    """One layer, to a size, by scales, or to a size that is an input."""
    made = step.definition.add_resize(step.tensor(0))
    outputs = step.place(
        made,
        resize_mode=layer.mode,
        coordinate_transformation=layer.coordinates,
        selector_for_single_pixel=layer.selector,
    )
    if layer.mode is InterpolationMode.NEAREST:
        made.nearest_rounding = step.dialect.member(layer.rounding)
    if layer.mode is InterpolationMode.CUBIC:
        made.cubic_coeff = layer.cubic_coeff
        made.exclude_outside = layer.exclude_outside
    if isinstance(layer.size, Given):
        made.set_input(1, step.tensor(1))
    elif layer.size is not None:
        made.shape = layer.size
    else:
        made.scales = layer.scales
    return outputs


@emitter
def grid_sample(step: Step, layer: GridSample) -> Outputs:
    """One layer."""
    made = step.definition.add_grid_sample(*step.tensors)
    return step.place(made, interpolation_mode=layer.mode, align_corners=layer.align_corners, sample_mode=layer.sample)
