"""Normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_axes, require_rank, require_same_dtype
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import ONE, Num, mod, to_text


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
        """Computed in float32, by PyTorch's own kernels where these have the form.

        What is quantized next to the middle between two steps then falls to the same side.
        """
        x, scale, bias = (tensor.float() for tensor in inputs)
        axes, rank = sorted(self.axes), x.dim()
        kept = axes[0]
        if not x.numel() or (axes != list(range(kept, rank)) and self.groups == 1):
            y = None
        elif self.groups != 1:
            y = _by_groups(x, self.groups, (1,), scale, bias, self.epsilon)
        elif _is_along(x, axes, scale, bias):
            y = F.layer_norm(
                x, x.shape[kept:], scale.reshape(x.shape[kept:]), bias.reshape(x.shape[kept:]), self.epsilon
            )
        else:  # groups with their channels beside them
            y = _by_groups(x, x.shape[1], (1, 2), scale, bias, self.epsilon) if kept == 2 and rank > 3 else None
        if y is None:
            y = self._by_moments(x, axes).mul_(scale).add_(bias)
        return (y.to(inputs[0].dtype),)

    def _by_moments(self, x: torch.Tensor, axes: list[int]) -> torch.Tensor:
        grouped = x
        if self.groups != 1:
            grouped = x.reshape(x.shape[0], self.groups, x.shape[1] // self.groups, *x.shape[2:])
            axes = list(range(2, grouped.dim()))
        centred = grouped - grouped.mean(axes, keepdim=True)
        variance = centred.square().mean(axes, keepdim=True)
        # In the place of what is no longer needed: the activations of the widest layers are not held four times.
        return centred.div_(torch.sqrt(variance + self.epsilon)).reshape(x.shape)


def _by_groups(
    x: torch.Tensor, groups: int, channels: tuple[int, ...], scale: torch.Tensor, bias: torch.Tensor, epsilon: float
) -> torch.Tensor | None:
    """By PyTorch's kernel; ``None`` where scale and bias are not one element a channel."""
    if not _is_along(x, channels, scale, bias):
        return None
    whole = x.flatten(1, channels[-1])
    # Not F.group_norm, which refuses a group of one element.
    return torch.group_norm(whole, groups, scale.flatten(), bias.flatten(), epsilon).reshape(x.shape)


def _is_along(x: torch.Tensor, dims: Sequence[int], *parts: torch.Tensor) -> bool:
    """Whether each has the elements of these dims of x, and no others."""
    wanted = [size if dim in dims else 1 for dim, size in enumerate(x.shape)]
    return all(list(part.shape) == wanted for part in parts)
