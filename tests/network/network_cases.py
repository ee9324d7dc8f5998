"""What a test of a layer kind states: the layer, its inputs, and an independent expression of its outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from trtdiag.network import DType, Layer, Network, NetworkBuilder, Origin
from trtdiag.symbolic import Range, evaluate, parse_expr

ORIGIN = Origin("aten.test.default", "node")
RANGES = {"b": Range(1, 5), "s": Range(1, 13), "h": Range(5, 31), "w": Range(4, 29)}
POINTS = (
    {"b": 1, "s": 1, "h": 5, "w": 4},
    {"b": 2, "s": 7, "h": 11, "w": 13},
    {"b": 3, "s": 2, "h": 6, "w": 29},
    {"b": 5, "s": 13, "h": 31, "w": 29},
)


@dataclass(frozen=True)
class In:
    """An input of symbolic shape; floats have the deviation ``spread``, integers are below ``below``."""

    shape: tuple[int | str, ...]
    dtype: DType = DType.FLOAT32
    below: int | str = 9
    least: int = 0
    spread: float = 2.0


@dataclass(frozen=True)
class Case:
    """``expected`` gives one tensor or a tuple from the same inputs, constants included.

    ``close`` is relative and absolute: 0 asks for equal bits.
    """

    name: str
    layer: Layer
    inputs: tuple[In | torch.Tensor, ...]
    expected: Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]
    close: float = 0.0
    points: tuple[dict[str, int], ...] = field(default=POINTS)

    def network(self) -> Network:
        """The network of this layer alone."""
        builder = NetworkBuilder(RANGES)
        shapes = {index: one for index, one in enumerate(self.inputs) if isinstance(one, In)}
        values = {
            index: builder.input(f"x{index}", one.dtype, [parse_expr(str(size)) for size in one.shape])
            for index, one in shapes.items()
        }
        for index, one in enumerate(self.inputs):
            if isinstance(one, torch.Tensor):
                held = DType.holding(one.dtype)
                values[index] = builder.constant(one, ORIGIN, held)
        made = builder.add(self.layer, *(values[index] for index in range(len(self.inputs))), origin=ORIGIN)
        for index, value in enumerate(made):
            builder.output(f"y{index}", value)
        return builder.build()

    def tensors(self, point: dict[str, int], seed: int) -> list[torch.Tensor]:
        """All inputs of the layer at one point, in order."""
        generator = torch.Generator().manual_seed(seed)
        return [one if isinstance(one, torch.Tensor) else _drawn(one, point, generator) for one in self.inputs]


def _drawn(one: In, point: dict[str, int], generator: torch.Generator) -> torch.Tensor:
    sizes = [int(evaluate(parse_expr(str(size)), point)) for size in one.shape]
    if one.dtype.is_float:
        return (torch.randn(sizes, generator=generator) * one.spread).to(one.dtype.torch)
    if one.dtype is DType.BOOL:
        return torch.randint(0, 2, sizes, generator=generator).bool()
    top = int(evaluate(parse_expr(str(one.below)), point))
    return torch.randint(one.least, top, sizes, generator=generator).to(one.dtype.torch)
