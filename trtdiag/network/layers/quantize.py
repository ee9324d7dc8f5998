"""Quantize, Dequantize and DynamicQuantize: numbers of few bits with scales beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trtdiag.network.dtype import FLOATS, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import (
    Layer,
    LayerError,
    require,
    require_axes,
    require_dtype,
    require_equal,
    require_rank,
    require_same_dtype,
)
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Num, floordiv

TAKEN = frozenset({DType.INT8, DType.FP8, DType.INT4, DType.FP4})
"""What tensors are quantized to."""
_INTEGERS = (DType.INT8, DType.INT4)
_GREATEST = {DType.INT8: 127.0, DType.FP8: 448.0, DType.INT4: 7.0, DType.FP4: 6.0}
_LEAST_EXPONENT, _GREATEST_EXPONENT = -127, 127
"""Of a scale of E8M0."""


@dataclass(frozen=True)
class Quantize(Layer, inputs=2, takes=FLOATS):
    """``clamp(x / scale)``, rounded to the nearest number that ``to`` has, ties to even.

    Scales are one number, one for each element of ``axis``, or one for each block: then they have the rank of x, and
    one dim of x is a multiple of theirs.

    Attributes:
        to: What x becomes.
        axis: Of scales in one dim.
    """

    to: DType
    axis: int = 0

    def __post_init__(self) -> None:
        require(self.to in TAKEN, f"nothing is quantized to {self.to.value}")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape of x."""
        require_same_dtype(inputs)
        _require_scales(inputs[0], inputs[1], self.axis, facts)
        return (Tensor(self.to, inputs[0].shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """In float32: integers by the reciprocal of the scale, as PyTorch's quantizers multiply, others divided.

        TensorRT does not say which of the two its kernels do; they differ by a step where x / scale is within a few
        units of the last place of the middle between two integers.
        """
        x, scale = (tensor.float() for tensor in inputs)
        by = _spread(scale, x, self.axis)
        return (rounded(x * by.reciprocal() if self.to in _INTEGERS else x / by, self.to),)


@dataclass(frozen=True)
class Dequantize(Layer, inputs=2, takes=TAKEN):
    """``x * scale``, with scales as those of ``Quantize``; those of E8M0 go with FP8 in blocks.

    Attributes:
        to: What x becomes; scales that are not of E8M0 are of it too.
        axis: Of scales in one dim.
    """

    to: DType
    axis: int = 0

    def __post_init__(self) -> None:
        require(self.to in FLOATS, f"nothing is dequantized to {self.to.value}")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape of x."""
        x, scale = inputs
        require_dtype(scale, (self.to, DType.E8M0) if x.dtype is DType.FP8 else (self.to,), "the scale")
        _require_scales(x, scale, self.axis, facts)
        return (Tensor(self.to, x.shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Multiplied in float32."""
        x, scale = (tensor.float() for tensor in inputs)
        return ((x * _spread(scale, x, self.axis)).to(self.to.torch),)


@dataclass(frozen=True)
class DynamicQuantize(Layer, inputs=(1, 2), takes=FLOATS):
    """x quantized in blocks along ``axis`` by scales that follow from each block, and these scales.

    To FP8 (MXFP8) the scales are powers of two, in E8M0; to FP4 (NVFP4) they are FP8, themselves quantized by a second
    input, one number.

    Attributes:
        to: FP8 or FP4.
        axis: The last dim or the one before.
        block_size: Elements that share a scale: 32 for FP8, 16 for FP4.
    """

    to: DType
    axis: int
    block_size: int

    def __post_init__(self) -> None:
        sizes = {DType.FP8: 32, DType.FP4: 16}
        require(self.to in sizes, f"nothing is quantized to {self.to.value} with scales that follow")
        # Source: IDynamicQuantizeLayer of the bindings of 10.16.1 and 11.4.0.
        require(self.block_size == sizes[self.to], f"blocks of {self.to.value} have {sizes[self.to]} elements")

    @property
    def scale_dtype(self) -> DType:
        """Of the second output."""
        return DType.E8M0 if self.to is DType.FP8 else DType.FP8

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape of x, and that with the blocks in the place of their elements."""
        x = inputs[0]
        require_rank(x, (2, 3))
        require_axes((self.axis,), x.rank)
        require(self.axis >= x.rank - 2, "the axis is neither the last nor the one before")
        require(len(inputs) == (2 if self.to is DType.FP4 else 1), "FP4 has a scale of the scales, FP8 none")
        for scale in inputs[1:]:
            require_dtype(scale, (DType.FLOAT32,), "the scale of the scales")
            require_rank(scale, (0,), "the scale of the scales")
        size = x.shape[self.axis]
        if not isinstance(size, Num) or size.value % self.block_size:
            raise LayerError(f"the dim is no number of blocks of {self.block_size}")
        scales = list(x.shape)
        scales[self.axis] = floordiv(size, self.block_size)
        return Tensor(self.to, x.shape), Tensor(self.scale_dtype, tuple(scales))

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Scales are the greatest element of a block by the greatest number: rounded up to a power of two, or to FP8.

        The rounding of scales to E8M0 is cuDNN's ("quantize_round_up", Block Scaling); TensorRT does not state its own.
        """
        x = inputs[0].float()
        blocks = x.unflatten(self.axis, (-1, self.block_size))  # type: ignore[no-untyped-call]
        greatest = blocks.abs().amax(self.axis + 1) / _GREATEST[self.to]
        if self.to is DType.FP8:
            exponent = torch.log2(greatest).ceil().clamp(_LEAST_EXPONENT, _GREATEST_EXPONENT)
            scales = torch.exp2(exponent).to(torch.float8_e8m0fnu)
            whole = scales.float()
        else:
            second = inputs[1].float()
            scales = rounded(greatest / second, DType.FP8)
            whole = scales.float() * second
        spread = whole.repeat_interleave(self.block_size, self.axis)
        quotient = torch.where(spread == 0, torch.zeros_like(x), x / spread)
        return rounded(quotient, self.to), scales


def _require_scales(x: Tensor, scale: Tensor, axis: int, facts: ShapeConstraints) -> None:
    require(scale.rank in (0, 1, x.rank), f"the scale has rank {scale.rank}; it must be 0, 1 or {x.rank}")
    if scale.rank == 1:
        require_axes((axis,), x.rank)
        require_equal(facts, x.shape[axis], scale.shape[0], "scales along the axis")
        return
    pairs = list(zip(x.shape, scale.shape, strict=True)) if scale.rank else []
    blocked = [axis for axis, (size, count) in enumerate(pairs) if not facts.equal(size, count)]
    # "Only a single blocking dimension is allowed", tensorrt-rtx 1.7.1.116, of scales without a shape of blocks.
    require(len(blocked) <= 1, f"the dims {blocked} are in blocks; one may be")
    for axis in blocked:
        if facts.quotient([x.shape[axis]], [scale.shape[axis]]) is None:
            raise LayerError(f"dim {axis} is not proven to be a multiple of the scales along it")


def _spread(scale: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    """The scale of each element, in a shape that broadcasts."""
    if scale.dim() == 0:
        return scale
    if scale.dim() == 1:
        return scale.reshape([-1 if dim == axis else 1 for dim in range(x.dim())])
    for dim, (size, count) in enumerate(zip(x.shape, scale.shape, strict=True)):
        if count and size != count:
            scale = scale.repeat_interleave(size // count, dim)
    return scale


def rounded(x: torch.Tensor, to: DType) -> torch.Tensor:
    """The nearest number of a quantized dtype, ties to even; greater ones are its greatest."""
    most = _GREATEST[to]
    if to in _INTEGERS:
        return x.round().clamp(-most - 1, most).to(torch.int8)
    x = x.clamp(-most, most)
    if to is DType.FP4:
        # Steps of 1/2 below 2, of 1 below 4, of 2 from there on.
        size = x.abs()
        step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
        x = (x / step).round() * step
    return x.to(torch.float8_e4m3fn)
