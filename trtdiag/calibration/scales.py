"""Scales of INT8 that half precision holds exactly.

Engines in half precision take scales in it; a scale that it holds means that the program and its engine round alike.
"""

from __future__ import annotations

import torch

LEAST, GREATEST = -128, 127
_LEAST_SCALE = 2.0**-20
"""Half precision holds scales down to 2**-24; from here on it rounds them up by at most 6 %."""
_HALF = torch.float16
_NORMAL = torch.finfo(_HALF).smallest_normal


def held_by_half(scales: torch.Tensor) -> torch.Tensor:
    """The next greater numbers that float16 holds, in float32; greater ones clip nothing.

    Channels that are tiny beside others get the least normal one: below that a Dequantize of float32 is needed, which
    nothing fuses.  Where all are tiny they stay.
    """
    wanted = scales.detach().double()
    least = _NORMAL if bool((wanted >= _NORMAL).any()) else _LEAST_SCALE
    wanted = wanted.clamp(min=least, max=torch.finfo(_HALF).max)
    near = wanted.to(_HALF)
    above = (near.view(torch.int16) + 1).view(_HALF)
    return torch.where(near.double() < wanted, above, near).float()


def channel_scales(weight: torch.Tensor, axis: int) -> torch.Tensor:
    """The scale of each output channel: its greatest magnitude becomes 127."""
    others = [dim for dim in range(weight.dim()) if dim != axis]
    return held_by_half(weight.detach().float().abs().amax(others) / GREATEST)


def quantized_weight(weight: torch.Tensor, scales: torch.Tensor, axis: int) -> torch.Tensor:
    """The weight in int8, of its own shape."""
    along = [-1 if dim == axis else 1 for dim in range(weight.dim())]
    return (weight.detach().float() / scales.reshape(along)).round().clamp(-GREATEST, GREATEST).to(torch.int8)


def after_quantizing(x: torch.Tensor, scale: float) -> torch.Tensor:
    """What is left of a tensor that is quantized with one scale, in its own dtype."""
    numbers = (x.float() / scale).round_().clamp_(LEAST, GREATEST)
    return numbers.mul_(scale).to(x.dtype)


def after_quantizing_weight(weight: torch.Tensor, axis: int) -> torch.Tensor:
    """What is left of a weight that is quantized by output channel, in its own dtype."""
    scales = channel_scales(weight, axis)
    along = [-1 if dim == axis else 1 for dim in range(weight.dim())]
    return (quantized_weight(weight, scales, axis).float() * scales.reshape(along)).to(weight.dtype)
