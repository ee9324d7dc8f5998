"""Attention that leaves out pixels by a threshold, and a right program that differs from it by its rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from trtdiag.dims.system import dim_system
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.frontend.sized_inputs import InputMaker
from trtdiag.graph.index_inputs import index_inputs
from trtdiag.graph.pytree import leaves_of
from trtdiag.verification.facts import OutputError, PointResult, Verification
from trtdiag.verification.run import Comparison
from trtdiag.verification.sides import Sides

ROWS, PIXELS, CHANNELS = 3, 64, 8
Compiled = Callable[..., Any]


class MaskedAttention(torch.nn.Module):
    """Attention that leaves out the pixels whose mask is below a threshold, as Mask2Former's does.

    Args:
        spread: How much the values differ among pixels: what one pixel more or less changes.
        off: How far, of its own size, the threshold of a pixel is from the pixel's mask for ``given``.
    """

    def __init__(self, spread: float, off: float = 0.0, given: torch.Tensor | None = None) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("weight", 1 + torch.rand(PIXELS, generator=generator))
        self.register_buffer("values", 1 + spread * torch.randn(PIXELS, CHANNELS, generator=generator))
        threshold = torch.zeros(ROWS, PIXELS) if given is None else self.mask(given) * (1 + off)
        threshold[:, ::2] = -math.inf  # half of the pixels are always there
        self.register_buffer("threshold", threshold)

    def mask(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.weight).cumsum(-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attended(self.mask(x))

    def attended(self, mask: torch.Tensor) -> torch.Tensor:
        scores = torch.zeros_like(mask).masked_fill(mask <= self.threshold, -math.inf)
        return torch.softmax(scores, -1) @ self.values

    def otherwise(self, x: torch.Tensor) -> torch.Tensor:
        """The same, its sums rounded in another way."""
        return self.attended((x.double() * self.weight.double()).cumsum(-1).to(x.dtype))


def exported(model: torch.nn.Module, *args: torch.Tensor, dims: Any = None) -> Program:
    return capture((model.eval(), args, {}, dims))


def given_inputs(program: Program) -> list[Any]:
    """What ``verify`` gives a program without ranges."""
    assert program.exported is not None
    example = program.exported.example_inputs
    return InputMaker(program.inputs, leaves_of(example), index_inputs(program.exported)).at({})


def attention(spread: float, off: float = 0.0) -> tuple[MaskedAttention, Program]:
    """With every second pixel at its threshold for the inputs that are compared."""
    x = torch.rand(ROWS, PIXELS, generator=torch.Generator().manual_seed(1))
    (given,) = given_inputs(exported(MaskedAttention(spread), x))
    model = MaskedAttention(spread, off, given)
    return model, exported(model, x)


def verified(program: Program, compiled: Compiled, **options: Any) -> Verification:
    return Comparison(program, compiled, dim_system(program).given(), **options).run()


def only(found: Verification) -> tuple[PointResult, OutputError]:
    (result,) = found.results
    (output,) = result.outputs
    return result, output


def runs_of_the_original(monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Tensor, ...]]:
    """The inputs of each run of the original from now on."""
    runs: list[tuple[torch.Tensor, ...]] = []
    call = Sides.call

    def counted(self: Sides, function: Compiled, flat: Any) -> Any:
        if function is self.original:
            runs.append(tuple(flat))
        return call(self, function, flat)

    monkeypatch.setattr(Sides, "call", counted)
    return runs
