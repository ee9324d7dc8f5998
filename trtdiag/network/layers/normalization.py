"""Normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_axes, require_rank, require_same_dtype
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Num, mod, to_text
from trtdiag.symbolic.build import ONE


@dataclass(frozen=True)
class Normalization(Layer, inputs=3, takes=FLOATS):
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` (inputs: x, scale, bias).

    Mean and (biased) variance are over ``axes``; layer norm: the last ones, instance norm: all after the channels.
    With ``groups`` other than 1 the channels, dim 1, are split into groups, axes are all after the channels, and mean
    and variance are over a group.  Scale and bias have the rank of x and broadcast to it; with groups they have one
    element a channel, as in TensorRT's ``add_normalization_v2``.
    """

    axes: tuple[int, ...]
    epsilon: float
    groups: int = 1

    def __post_init__(self) -> None:
        require(len(self.axes) > 0, "there is no axis")
        require(self.epsilon >= 0, f"epsilon is {self.epsilon}")
        require(self.groups >= 1, f"groups is {self.groups}")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The type of x."""
        x = inputs[0]
        require_same_dtype(inputs)
        require_axes(self.axes, x.rank)
        for tensor, role in zip(inputs[1:], ("scale", "bias"), strict=True):
            require_rank(tensor, (x.rank,), role)
            for axis, (size, whole) in enumerate(zip(tensor.shape, x.shape, strict=True)):
                fits = size == ONE or facts.equal(size, whole)
                require(fits, f"{role} has {to_text(size)} in dim {axis}, the input {to_text(whole)}")
        if self.groups != 1:
            require(sorted(self.axes) == list(range(2, x.rank)), "with groups the axes are all after the channels")
            require(mod(x.shape[1], self.groups) == Num(0), f"{self.groups} groups do not divide the channels")
        return (Tensor(x.dtype, x.shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Computed in float32."""
        x, scale, bias = (tensor.float() for tensor in inputs)
        grouped, axes = x, sorted(self.axes)
        if self.groups != 1:
            grouped = x.reshape(x.shape[0], self.groups, x.shape[1] // self.groups, *x.shape[2:])
            axes = list(range(2, grouped.dim()))
        centred = grouped - grouped.mean(axes, keepdim=True)
        variance = centred.square().mean(axes, keepdim=True)
        # In the place of what is no longer needed: the activations of the widest layers are not held four times.
        y = centred.div_(torch.sqrt(variance + self.epsilon)).reshape(x.shape)
        return (y.mul_(scale).add_(bias).to(inputs[0].dtype),)
