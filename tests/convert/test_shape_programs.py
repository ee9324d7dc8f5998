"""Programs of shape ops with several dynamic dims at once: one engine each, right at both ends of the ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from tests.harness.rows import thinned
from tests.runtime.compiling import NARROW, compiled

Sizes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Case:
    """A function, the sizes of its inputs when it is exported, and others; dims that differ are dynamic."""

    run: Callable[..., Any]
    sizes: Sizes
    others: tuple[Sizes, ...]
    dtype: torch.dtype = torch.float32


def _image(run: Callable[..., Any], dtype: torch.dtype = torch.float32) -> Case:
    return Case(run, ((2, 8, 6, 10),), (((1, 8, 4, 3),), ((3, 8, 13, 7),), ((4, 8, 20, 30),)), dtype)


def _matrix(run: Callable[..., Any], dtype: torch.dtype = torch.float32) -> Case:
    return Case(run, ((5, 6),), (((1, 11),), ((13, 3),), ((30, 30),)), dtype)


CASES = {
    "pixel_shuffle": _image(lambda x: F.pixel_shuffle(x, 2)),
    "channel_shuffle": _image(lambda x: F.channel_shuffle(x, 4), torch.int64),
    "flatten": _image(lambda x: x.flatten(2).transpose(1, 2)),
    "heads": _image(lambda x: x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, 2, 4).transpose(1, 2)),
    "windows": _image(lambda x: x.unfold(2, 3, 1).unfold(3, 2, 2)),
    "im2col": _image(lambda x: F.unfold(x, (3, 2), dilation=1, padding=(1, 0), stride=(2, 1))),
    "fold": _image(lambda x: F.fold(F.unfold(x, 2, padding=1), x.shape[-2:], 2, padding=1)),
    "reflect": _image(lambda x: F.pad(x, (2, 1, 3, 0), mode="reflect")),
    "replicate": _image(lambda x: F.pad(x, (5, 1, 0, 7), mode="replicate"), torch.float16),
    "circular": _image(lambda x: F.pad(x, (2, 1, 0, 3), mode="circular")),
    "circular_cut": _image(lambda x: F.pad(x, (2, -1, -1, 1), mode="circular")),
    "constant": _image(lambda x: F.pad(x, (2, -1, -1, 3), value=7.5)),
    "cut": _image(lambda x: F.pad(x, (-1, 0, 0, -2)), torch.bool),
    "pad_by_sizes": _image(lambda x: F.pad(x, (0, 32 - x.shape[3], 32 - x.shape[2], 0), value=-1.0)),
    "pad_to_multiple": _image(lambda x: F.pad(x, (0, (-x.shape[3]) % 8, 0, (-x.shape[2]) % 8))),
    "slices": _image(lambda x: x[:, 1:-2:3, -3:, 1:]),
    "slice_by_sizes": _image(lambda x: x[:, :, 1 : x.shape[2] - 1, : x.shape[3] - 1]),
    "beyond": _image(lambda x: x[:, 3:100, :2, -2:]),
    "last": _image(lambda x: x[:, :, -1, 0] + x[:, :, x.shape[2] - 2, 1]),
    "split": _image(lambda x: torch.cat(x.split([1, 2, 5], 1)[::-1], 1), torch.bool),
    "chunk": _image(lambda x: torch.stack(x.chunk(4, 1), 0)),
    "unbind": _image(lambda x: torch.stack(x.unbind(1)[1:4], -1), torch.int64),
    "roll": _image(lambda x: x.roll((3, -2), (2, 3))),
    "roll_by_sizes": _image(lambda x: x.roll((x.shape[2] // 2, -x.shape[3] // 2), (2, 3))),
    "roll_flat": _image(lambda x: x.roll(5)),
    "flip": _image(lambda x: x.flip(0, 2, 3), torch.bool),
    "turn": _image(lambda x: torch.rot90(x, 3, (2, 3)) + torch.rot90(x, -1, (3, 2)).flip(2, 3)),
    "repeat": _image(lambda x: x.repeat(2, 1, 3, 1)),
    "interleave": _image(lambda x: x.repeat_interleave(3, 3).repeat_interleave(2, dim=0)),
    "expand": _image(lambda x: x[:, :1].expand(-1, 5, -1, -1) + x[:1, :1]),
    "squeeze": _image(lambda x: x[:, 3:4].squeeze(1).unsqueeze(0).unsqueeze(-1)),
    "tril": _matrix(lambda x: x.tril(1) + x.triu(-2)),
    "tril_by_sizes": _matrix(lambda x: x.tril(x.shape[1] - x.shape[0]), torch.int64),
    "diagonal": Case(
        lambda x: (x.diagonal(1), x.diagonal(-1, 2, 1), x.diagonal(3, 1, 2)),
        ((5, 6, 7),),
        (((1, 13, 11),), ((3, 5, 9),), ((2, 30, 30),)),
    ),
    "diag_embed": _matrix(lambda x: torch.diag_embed(x, -2, 0, 2), torch.bool),
    "trace": _matrix(lambda x: x.trace(), torch.int64),
    "arange": _matrix(lambda x: x + torch.arange(x.shape[0])[:, None] * torch.arange(3, x.shape[1] + 3)),
    "arange_by_steps": _matrix(lambda x: (torch.arange(x.shape[0], 100, x.shape[1]), x)),
    "arange_of_floats": _matrix(lambda x: (torch.arange(0, x.shape[0], 0.5), torch.arange(x.shape[1], dtype=x.dtype))),
    "linspace": _matrix(lambda x: (torch.linspace(0, x.shape[0] - 1, 7), torch.linspace(-1, 1, 5), x)),
    "eye": _matrix(lambda x: x @ torch.eye(x.shape[1]) + torch.eye(x.shape[0], x.shape[1])),
    "full": _matrix(lambda x: torch.full((x.shape[1], 3, x.shape[0]), x.shape[0]) + x.new_ones(x.shape[1], 1, 1)),
    "like": _matrix(lambda x: torch.zeros_like(x) + torch.ones_like(x, dtype=torch.bool) + torch.full_like(x, 2.5)),
    "meshgrid": _matrix(lambda x: torch.meshgrid(x[0], x[:, 0], indexing="xy")),
    "sum_of_sizes": Case(
        lambda x, y: torch.cat([x, y, x], 1).reshape(x.shape[0], 2, -1),
        ((2, 3, 4), (2, 6, 4)),
        (((1, 1, 4), (1, 10, 4)), ((5, 7, 4), (5, 2, 4))),
    ),
}


def _inputs(case: Case, sizes: Sizes) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randint(0, 9, size).to(case.dtype) for size in sizes)


def _dynamic(case: Case) -> tuple[dict[int, Any], ...]:
    """Dims of one size when it is exported are one dim."""
    found: list[dict[int, Any]] = []
    for place, size in enumerate(case.sizes):
        of: dict[int, Any] = {}
        for axis, length in enumerate(size):
            others = {other[place][axis] for other in case.others}
            if others != {length}:
                of[axis] = Dim(f"d{length}", min=min(length, *others), max=30)
        found.append(of)
    return tuple(found)


@pytest.mark.parametrize("target", [pytest.param("8.6", marks=pytest.mark.slow), "11.4"])
# The ops are quick one by one in test_ops_shapes.py.
@thinned("name", CASES, every=99)
def test_program(name: str, target: str) -> None:
    case = CASES[name]

    class Model(torch.nn.Module):
        def forward(self, *xs: torch.Tensor) -> Any:
            return case.run(*xs)

    torch.manual_seed(0)
    plan = NARROW if target == "8.6" else None
    program = compiled(Model(), _inputs(case, case.sizes), dynamic_shapes=(_dynamic(case),), plan=plan, target=target)
    calls = [node for node in program.exported_program.graph.nodes if node.op == "call_function"]
    engines = [node for node in calls if "execute_engine" in str(node.target)]
    assert len(engines) == 1, [str(node.target) for node in calls]
    for sizes in (case.sizes, *case.others):
        inputs = _inputs(case, sizes)
        torch.testing.assert_close(program(*inputs), Model()(*inputs), rtol=1e-6, atol=1e-6)
