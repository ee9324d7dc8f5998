"""Programs from the CPU to a GPU and back, run on both; needs a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.export import save

from tests.frontend.test_on_device import exported_everywhere, tensors_of
from trtdiag.frontend.capture import capture
from trtdiag.frontend.move_to_device import on_device, program_device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
# bfloat16 inside the autocast block keeps 2**-8.
CLOSE = {"rtol": 2e-2, "atol": 2e-2}


def _agree(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    torch.testing.assert_close(left["wide"].cpu(), right["wide"].cpu(), **CLOSE)
    assert torch.equal(left["where"].cpu(), right["where"].cpu())


def test_a_program_runs_on_the_gpu_and_back_on_the_cpu(tmp_path: Path) -> None:
    exported = exported_everywhere()
    there = on_device(exported, "cuda")
    assert {tensor.device for tensor in tensors_of(there)} == {torch.device("cuda", torch.cuda.current_device())}
    x, flag = torch.randn(7, 5), torch.ones(2)
    expected = exported.module()(x, flag)
    actual = there.module()(x.cuda(), flag.cuda())
    assert actual["wide"].is_cuda
    _agree(actual, expected)

    save(there, tmp_path / "there.pt2")
    loaded = capture(tmp_path / "there.pt2").exported
    assert loaded is not None
    assert program_device(loaded) == program_device(there)
    _agree(loaded.module()(x.cuda(), flag.cuda()), expected)
    back = on_device(loaded, "cpu")
    again = back.module()(x, flag)
    assert torch.equal(again["wide"], expected["wide"])


def test_weights_are_on_the_gpu_once() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(2000, 512)
            self.head = torch.nn.Linear(512, 2000, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(tokens))

    exported = torch.export.export(Tied(), (torch.randint(0, 2000, (3, 7)),))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    there = on_device(exported, "cuda")
    # One weight of 2000 x 512 float32, the example and what the allocator rounds up.
    assert torch.cuda.memory_allocated() - before < 1.1 * 2000 * 512 * 4
    assert there.module()(torch.randint(0, 2000, (3, 7), device="cuda")).is_cuda
