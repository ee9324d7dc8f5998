"""Products of float32, planned for a TensorRT whose builder has no kernels for them on Turing."""

from __future__ import annotations

import torch
from torch.export import Dim, ExportedProgram, export

NEEDS = "tensorrt-rtx"
OPTIONS = {"target": "11.4", "try_build": True, "gpu": ("sm75", "sm89")}


class Head(torch.nn.Module):
    """Two products and what lies between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(7, 5)
        self.second = torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Three numbers a row."""
        hidden = torch.relu(self.first(x))
        return torch.sigmoid(self.second(hidden))


def program() -> ExportedProgram:
    """With a batch of 1 to 13."""
    return export(Head().eval(), (torch.randn(2, 7),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=13)}})
