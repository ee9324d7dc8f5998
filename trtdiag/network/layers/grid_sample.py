"""GridSample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_equal, require_rank, require_same_dtype
from trtdiag.network.layers.resize import InterpolationMode
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Num

_MODES = {
    InterpolationMode.NEAREST: "nearest",
    InterpolationMode.LINEAR: "bilinear",
    InterpolationMode.CUBIC: "bicubic",
}
_PADDINGS = {SampleMode.FILL: "zeros", SampleMode.CLAMP: "border", SampleMode.REFLECT: "reflection"}


@dataclass(frozen=True)
class GridSample(Layer, inputs=2, takes=FLOATS):
    """The image at the points of a grid (inputs: image (n, c, h, w), grid (n, h', w', 2) of x and y in -1..1).

    Attributes:
        mode: From how many pixels.
        align_corners: Whether -1 and 1 are the centres of the outermost pixels, or their outer edges.
        sample: What lies outside: 0 (FILL), the nearest pixel (CLAMP), the mirrored one (REFLECT).
    """

    mode: InterpolationMode = InterpolationMode.LINEAR
    align_corners: bool = False
    sample: SampleMode = SampleMode.FILL

    def __post_init__(self) -> None:
        require(self.sample in _PADDINGS, f"GridSample has no {self.sample.name}")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """Batch and channels of the image, height and width of the grid."""
        image, grid = inputs
        require_same_dtype(inputs)
        require_rank(image, (4,), "the image")
        require_rank(grid, (4,), "the grid")
        require(grid.shape[3] == Num(2), "the grid's last dim is not 2")
        require_equal(facts, image.shape[0], grid.shape[0], "batch of image and grid")
        return (Tensor(image.dtype, (*image.shape[:2], *grid.shape[1:3])),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By ``F.grid_sample``, whose definition TensorRT's layer follows; in float32."""
        image, grid = (tensor.float() for tensor in inputs)
        y = F.grid_sample(image, grid, _MODES[self.mode], _PADDINGS[self.sample], self.align_corners)
        return (y.to(inputs[0].dtype),)
