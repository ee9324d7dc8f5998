"""Resize and GridSample: interpolation over any dims, in TensorRT's coordinate systems, and at given points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import torch
import torch.nn.functional as F

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import (
    Given,
    Layer,
    Sizes,
    given_values,
    require,
    require_equal,
    require_rank,
    require_same_dtype,
)
from trtdiag.network.layers.slice import SampleMode
from trtdiag.network.tensor import Tensor, shape_of
from trtdiag.shapes.op_call import Shape
from trtdiag.symbolic import Num, floor, mul


class InterpolationMode(Enum):
    """From how many elements along each dim; the value is how many innermost dims TensorRT resizes at most."""

    NEAREST = 8
    LINEAR = 3
    CUBIC = 2


class ResizeCoordinateTransformation(Enum):
    """The input coordinate of output element i of n, for an input of m elements; r is m / n, or 1 / scale."""

    ALIGN_CORNERS = "i * (m - 1) / (n - 1)"
    ASYMMETRIC = "i * r"
    HALF_PIXEL = "(i + 0.5) * r - 0.5"


class ResizeSelector(Enum):
    """The coordinate where the output has one element along a dim: the formula's, or 0."""

    FORMULA = "formula"
    UPPER = "upper"


class ResizeRoundMode(Enum):
    """The element that NEAREST takes for a coordinate."""

    HALF_UP = "floor(x + 0.5)"
    HALF_DOWN = "ceil(x - 0.5)"
    FLOOR = "floor(x)"
    CEIL = "ceil(x)"


@dataclass(frozen=True)
class Resize(Layer, inputs=(1, 2), takes=FLOATS):
    """The input interpolated to other sizes; elements outside are those at the border.

    Attributes:
        mode: NEAREST, LINEAR or CUBIC.
        size: The output's sizes, or a further input; ``None`` with scales.
        scales: Factors for all dims, powers of two times a small integer, so that ``floor(size * scale)`` is exact;
            coordinates then use the factor, not the quotient of the sizes.
        coordinates: See there.
        selector: See there.
        rounding: See there; only NEAREST uses it.
        cubic_coeff: The coefficient a of cubic convolution.
        exclude_outside: CUBIC leaves elements outside out, and the others' weights add up to 1 again.
    """

    mode: InterpolationMode
    size: Sizes | None = None
    scales: tuple[float, ...] | None = None
    coordinates: ResizeCoordinateTransformation = ResizeCoordinateTransformation.ALIGN_CORNERS
    selector: ResizeSelector = ResizeSelector.FORMULA
    rounding: ResizeRoundMode = ResizeRoundMode.FLOOR
    cubic_coeff: float = -0.75
    exclude_outside: bool = False

    def __post_init__(self) -> None:
        require((self.size is None) != (self.scales is None), "either the size or the scales are given")
        for scale in self.scales or ():
            exact = 0 < scale <= 2**10 and float(scale * 2**10).is_integer()
            require(exact, f"the scale {scale} is no positive multiple of 1/1024 up to 1024; give the size instead")
        if isinstance(self.size, tuple):
            require(all(size >= 1 for size in self.size), f"the size {self.size} is not positive")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The asked size."""
        x = inputs[0]
        given = isinstance(self.size, Given)
        require(len(inputs) == 1 + given, f"there are {len(inputs)} inputs; the attributes ask for {1 + given}")
        shape: Shape
        if isinstance(self.size, Given):
            shape = given_values(inputs[1], "the size")
        elif self.size is not None:
            shape = shape_of(self.size)
        else:
            scales = self.scales or ()
            require(len(scales) == x.rank, f"there are {len(scales)} scales for {x.rank} dims")
            shape = tuple(floor(mul(Fraction(scale), size)) for size, scale in zip(x.shape, scales, strict=True))
        require(len(shape) == x.rank, f"there are {len(shape)} sizes for {x.rank} dims")
        outer = max(0, x.rank - self.mode.value)
        for axis in range(outer):
            require(facts.equal(shape[axis], x.shape[axis]), f"{self.mode.name} cannot resize dim {axis}")
        return (Tensor(x.dtype, shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """One dim after the other, with coordinates and weights in float32."""
        x = inputs[0]
        sizes = self._sizes(inputs)
        y = x if self.mode is InterpolationMode.NEAREST else x.float()
        for axis, size in enumerate(sizes):
            scale = None if self.scales is None else self.scales[axis]
            if size == x.shape[axis] and scale in (None, 1.0):
                continue
            y = self._along(y, axis, self._coordinates(x.shape[axis], size, scale))
        return (y.to(x.dtype),)

    def _sizes(self, inputs: Sequence[torch.Tensor]) -> list[int]:
        if isinstance(self.size, Given):
            return [int(size) for size in inputs[1].tolist()]
        if self.size is not None:
            return list(self.size)
        return [int(size * Fraction(scale)) for size, scale in zip(inputs[0].shape, self.scales or (), strict=True)]

    def _coordinates(self, old: int, new: int, scale: float | None) -> torch.Tensor:
        if new == 1 and self.selector is ResizeSelector.UPPER:
            return torch.zeros(1)
        index = torch.arange(new, dtype=torch.float32)
        if self.coordinates is ResizeCoordinateTransformation.ALIGN_CORNERS:
            return index * torch.tensor((old - 1) / (new - 1) if new > 1 else 0.0)
        ratio = torch.tensor(old / new if scale is None else 1 / scale)
        if self.coordinates is ResizeCoordinateTransformation.ASYMMETRIC:
            return index * ratio
        return (index + 0.5) * ratio - 0.5

    def _along(self, x: torch.Tensor, axis: int, at: torch.Tensor) -> torch.Tensor:
        """``x`` at the coordinates ``at`` of one dim."""
        if self.mode is InterpolationMode.NEAREST:
            return x.index_select(axis, _ROUNDED[self.rounding](at).long().clamp(0, x.shape[axis] - 1))
        low = at.floor()
        part = at - low
        if self.mode is InterpolationMode.LINEAR:
            taps = [(0, 1 - part), (1, part)]
        else:
            taps = [(offset, _cubic((part - offset).abs(), self.cubic_coeff)) for offset in (-1, 0, 1, 2)]
        if self.exclude_outside and self.mode is InterpolationMode.CUBIC:
            inside = [((low + o >= 0) & (low + o < x.shape[axis]), o, weight) for o, weight in taps]
            whole = torch.stack([torch.where(on, weight, 0.0) for on, _, weight in inside]).sum(0)
            taps = [(o, torch.where(on, weight, 0.0) / whole) for on, o, weight in inside]
        like = [-1 if dim == axis else 1 for dim in range(x.dim())]
        parts = [
            x.index_select(axis, (low.long() + offset).clamp(0, x.shape[axis] - 1)) * weight.reshape(like)
            for offset, weight in taps
        ]
        return torch.stack(parts).sum(0)


_ROUNDED: dict[ResizeRoundMode, Callable[[torch.Tensor], torch.Tensor]] = {
    ResizeRoundMode.HALF_UP: lambda at: (at + 0.5).floor(),
    ResizeRoundMode.HALF_DOWN: lambda at: (at - 0.5).ceil(),
    ResizeRoundMode.FLOOR: torch.floor,
    ResizeRoundMode.CEIL: torch.ceil,
}


def _cubic(distance: torch.Tensor, a: float) -> torch.Tensor:
    """The weight of an element at a distance below 2 (Keys, 1981)."""
    d = distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return torch.where(d <= 1, near, far)


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
