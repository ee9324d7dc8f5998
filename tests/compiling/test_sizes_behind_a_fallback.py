"""Sizes that only an input of the program gives, needed by an engine that begins behind an op left to PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from tests.compiling.programs import Asked
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages


class Halves(nn.Module):
    """Strides make ``(h - 1)//8 + 1`` of h; the end asks for h itself again."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(2 if i == 0 else 3, 3, 3, 2, 1) for i in range(steps))
        self.deep = nn.Conv2d(3, 3, 3, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x
        for layer in self.down:
            y = layer(y)
        y = torch.sinh(y)
        z = torch.relu(self.deep(y))
        flat = z.flatten(2).transpose(1, 2)
        up = F.interpolate(z, size=x.shape[-2:], mode="nearest")
        return flat * 2 + 1, up.sum(1)


def _asked(steps: int, low: int, high: int) -> Asked:
    torch.manual_seed(0)
    dims = {"x": {0: Dim("b", min=1, max=3), 2: Dim("h", min=low, max=high), 3: Dim("w", min=low, max=high)}}
    return Halves(steps).eval(), (torch.randn(2, 2, 40, 53),), {}, dims


# Slow: more of the same rounding, on the target that the other has.
@pytest.mark.parametrize(
    ("steps", "target"),
    [
        (1, "8.6"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((1, "11.4"), (2, "8.6"), (2, "11.4"), (3, "8.6"), (3, "11.4"))
        ),
    ],
)
@pytest.mark.slow  # quick: sizes worked out outside, tests/runtime/test_row_writes.py
def test_every_size_agrees(steps: int, target: str) -> None:
    options = CompileOptions(
        target=target,
        backend="reference",
        partition=PartitionOptions(min_segment_ops=1, keep_in_torch=("aten.sinh",)),
    )
    found = compile_in_stages(_asked(steps, 17, 71), options)
    assert len(found.engines) == 2
    assert found.verification is not None
    assert found.verification.passed, found.verification.worst
    assert any(crossing.is_size for crossing in found.converted[1].inputs)

    module = _asked(steps, 17, 71)[0]
    generator = torch.Generator().manual_seed(1)
    for _ in range(12):
        b, h, w = (int(torch.randint(low, high, (), generator=generator)) for low, high in ((1, 4), (17, 72), (17, 72)))
        x = torch.randn(b, 2, h, w)
        for expected, actual in zip(module(x), found.compiled(x), strict=True):
            # Convolutions of at most 27 products, four one after the other.
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
