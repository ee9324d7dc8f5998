"""Images at the points of a grid."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.volume_sampling import sampled_volume
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.network.layers.grid_sample import GridSample
from trtdiag.network.layers.resize import InterpolationMode
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.value import Value

_MODES = (InterpolationMode.LINEAR, InterpolationMode.NEAREST, InterpolationMode.CUBIC)
_SAMPLES = (SampleMode.FILL, SampleMode.CLAMP, SampleMode.REFLECT)


@converter
def grid_sampler(call: Call) -> Value:
    """aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) ->
        Tensor

    Volumes are sampled by gathers; cubic sampling is refused for them, as in PyTorch.

    aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) ->
        Tensor
    aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) ->
        Tensor
    """
    image, grid = call.tensor("input"), call.tensor("grid")
    mode = _MODES[call.integer("interpolation_mode")]
    sample = _SAMPLES[call.integer("padding_mode")]
    corners = call.flag("align_corners")
    if image.rank == 4:
        return call.write.add(GridSample(mode, corners, sample), image, grid)
    if mode is InterpolationMode.CUBIC:
        raise refuse("cubic-volume", "PyTorch samples no volumes with the cubic kernel")
    nearest = mode is InterpolationMode.NEAREST
    return sampled_volume(call.write, image, grid, nearest=nearest, align_corners=corners, sample=sample)


@converter
def cudnn_grid_sampler(call: Call) -> Value:
    """aten::cudnn_grid_sampler(Tensor self, Tensor grid) -> Tensor output"""
    layer = GridSample(InterpolationMode.LINEAR, True, SampleMode.FILL)
    return call.write.add(layer, call.tensor("self"), call.tensor("grid"))
