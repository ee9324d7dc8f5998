"""A function as a program of one engine: exported, lowered and converted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trtdiag.dims.system import dim_system
from trtdiag.frontend.capture import capture
from trtdiag.lower.metadata import check_metadata
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.plan_engines import convert_segments, plan_engines
from trtdiag.targets.versions import get_target


class FunctionProgram(torch.nn.Module):
    """A function of tensors as a module, with a table of its own."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.table = torch.nn.Parameter(torch.linspace(-1, 1, 21).reshape(7, 3))
        self.register_buffer("places", torch.tensor([[0, 2], [-1, 1]]))

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(self, *args)


def converted(program: Callable[..., torch.Tensor], args: tuple[Any, ...], dims: Any, target: str) -> Any:
    """The exported module and its one segment; an error where an op cannot be in it."""
    captured = capture((FunctionProgram(program).eval(), args, {}, {"args": dims}))
    checked = check_metadata(captured)
    options = CompileOptions(partition=PartitionOptions(require_full=True))
    plan = plan_engines(captured, checked, dim_system(captured), get_target(target), options)
    _, (segment,) = convert_segments(plan)
    assert captured.exported is not None
    return captured.exported.module(), segment
