"""A program from the GPU is lowered like the same from the CPU; needs a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from trtdiag.convert.registry import has_converter
from trtdiag.frontend.capture import capture
from trtdiag.frontend.move_to_device import on_device
from trtdiag.lower.lowered import lower
from trtdiag.lower.metadata import check_metadata

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


class Folding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(7, 5))
        self.register_buffer("steps", torch.arange(5.0))

    def forward(self, x: Tensor) -> Tensor:
        scaled = (self.weight.exp() * self.steps.neg()).t()
        return x @ scaled + torch.zeros(7, device=x.device) + self.steps.sum()


def test_constants_fold_on_both_devices() -> None:
    torch.manual_seed(0)
    here = export(Folding().eval(), (torch.randn(3, 5),), dynamic_shapes={"x": {0: Dim("b", min=2, max=9)}})
    found = []
    for exported in (here, on_device(here, "cuda")):
        program = capture(exported)
        found.append(lower(program, check_metadata(program), has_converter))
    cpu, gpu = found
    assert [str(node.target) for node in cpu.graph_module.graph.nodes] == [
        str(node.target) for node in gpu.graph_module.graph.nodes
    ]
    assert {entry.name: entry.changed for entry in cpu.passes} == {entry.name: entry.changed for entry in gpu.passes}
    folded = [name for name in cpu.tensors if name.startswith("c_folded")]
    assert len(folded) == 2
    for name in folded:
        torch.testing.assert_close(gpu.tensors[name].cpu(), cpu.tensors[name])
