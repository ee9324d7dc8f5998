"""Activation and ParametricReLU: functions of one element, the second with a slope for each channel or element."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import torch
import torch.nn.functional as F

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, broadcast, require, require_same_dtype
from trtdiag.network.tensor import Tensor


class ActivationType(Enum):
    """TensorRT's activations; ``a`` and ``b`` are alpha and beta."""

    RELU = "max(0, x)"
    SIGMOID = "1 / (1 + exp(-x))"
    TANH = "tanh(x)"
    LEAKY_RELU = "x if x >= 0 else a * x"
    ELU = "x if x >= 0 else a * (exp(x) - 1)"
    SELU = "b * x if x > 0 else b * (a * exp(x) - a)"
    SOFTSIGN = "x / (1 + abs(x))"
    SOFTPLUS = "a * log(exp(b * x) + 1)"
    CLIP = "max(a, min(b, x))"
    HARD_SIGMOID = "max(0, min(1, a * x + b))"
    SCALED_TANH = "a * tanh(b * x)"
    THRESHOLDED_RELU = "x if x > a else 0"
    GELU_ERF = "0.5 * x * (1 + erf(sqrt(0.5) * x))"
    GELU_TANH = "0.5 * x * (1 + tanh(sqrt(2 / pi) * (0.044715 * x ** 3 + x)))"


@dataclass(frozen=True)
class Activation(Layer, takes=FLOATS):
    """``op`` of each element; an op that has no alpha or beta takes none."""

    op: ActivationType
    alpha: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        for number, letter, name in ((self.beta, "b", "beta"), (self.alpha, "a", "alpha")):
            require(number == 0 or bool(re.search(rf"\b{letter}\b", self.op.value)), f"{self.op.name} has no {name}")
        require(self.op is not ActivationType.CLIP or self.alpha <= self.beta, "CLIP needs alpha <= beta")

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The type of the input."""
        return (Tensor(inputs[0].dtype, inputs[0].shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Computed in float32 for the 16 bit types, then rounded once."""
        y = _FUNCTIONS[self.op](inputs[0].float(), self.alpha, self.beta)
        return (y.to(inputs[0].dtype),)


_SOFTPLUS_IS_X = 80.0  # exp(80) is finite in float32, and log(exp(80) + 1) is 80 in it

_FUNCTIONS: dict[ActivationType, Callable[[torch.Tensor, float, float], torch.Tensor]] = {
    ActivationType.RELU: lambda x, a, b: F.relu(x),
    ActivationType.SIGMOID: lambda x, a, b: torch.sigmoid(x),
    ActivationType.TANH: lambda x, a, b: torch.tanh(x),
    ActivationType.LEAKY_RELU: lambda x, a, b: torch.where(x >= 0, x, a * x),
    ActivationType.ELU: lambda x, a, b: torch.where(x >= 0, x, a * torch.expm1(x)),
    ActivationType.SELU: lambda x, a, b: b * torch.where(x > 0, x, a * torch.expm1(x)),
    ActivationType.SOFTSIGN: lambda x, a, b: x / (1 + x.abs()),
    ActivationType.SOFTPLUS: lambda x, a, b: (
        F.softplus(x, threshold=_SOFTPLUS_IS_X) if a == b == 1 else a * torch.logaddexp(b * x, torch.zeros_like(x))
    ),
    ActivationType.CLIP: lambda x, a, b: x.clamp(a, b),
    ActivationType.HARD_SIGMOID: lambda x, a, b: (
        F.hardsigmoid(x) if (a, b) == (1 / 6, 0.5) else (a * x + b).clamp(0, 1)
    ),
    ActivationType.SCALED_TANH: lambda x, a, b: a * torch.tanh(b * x),
    ActivationType.THRESHOLDED_RELU: lambda x, a, b: torch.where(x > a, x, torch.zeros_like(x)),
    ActivationType.GELU_ERF: lambda x, a, b: F.gelu(x),
    ActivationType.GELU_TANH: lambda x, a, b: F.gelu(x, approximate="tanh"),
}


@dataclass(frozen=True)
class ParametricReLU(Layer, inputs=2, takes=FLOATS):
    """``x if x >= 0 else slope * x``; the slopes broadcast to the input (inputs: x, slopes)."""

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The type of x."""
        require_same_dtype(inputs)
        require(broadcast(inputs, facts) == inputs[0].shape, "the slopes do not broadcast to the shape of x")
        return (Tensor(inputs[0].dtype, inputs[0].shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By selection, so that an infinite slope does not make a NaN of zero."""
        x, slopes = inputs
        return (torch.where(x >= 0, x, slopes * x),)
