"""Images at the points of a grid."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.refused import refuse
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.layers.grid_sample import GridSample
from trtdiag.network.layers.resize import InterpolationMode
from trtdiag.network.layers.slice import SampleMode

_MODES = (InterpolationMode.LINEAR, InterpolationMode.NEAREST, InterpolationMode.CUBIC)
_SAMPLES = (SampleMode.FILL, SampleMode.CLAMP, SampleMode.REFLECT)


@converter
def grid_sampler(call: Call) -> Value:
    """aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)
    -> Tensor

    Refused for volumes.
    """
    return _sampled(call)


@converter
def grid_sampler_2d(call: Call) -> Value:
    """aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)
    -> Tensor
    """
    return _sampled(call)


@converter
def cudnn_grid_sampler(call: Call) -> Value:
    """aten::cudnn_grid_sampler(Tensor self, Tensor grid) -> Tensor output"""
    layer = GridSample(InterpolationMode.LINEAR, True, SampleMode.FILL)
    return call.write.add(layer, call.tensor("self"), call.tensor("grid"))


def _sampled(call: Call) -> Value:
    image, grid = call.tensor("input"), call.tensor("grid")
    if image.rank != 4:
        raise refuse("volume", "GridSample takes images; this is a volume", "sample each slice of the volume")
    mode = _MODES[call.integer("interpolation_mode")]
    sample = _SAMPLES[call.integer("padding_mode")]
    return call.write.add(GridSample(mode, call.flag("align_corners"), sample), image, grid)
