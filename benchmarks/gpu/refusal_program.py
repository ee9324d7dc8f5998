"""A small program for commands that are refused; ``refusals.py`` names its factory on the command line."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import Dim


def on_gpu() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """A convolution and what follows it, exported where engines of TensorRT run."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Softmax(1)).eval().to(device)
    return model, (torch.randn(2, 3, 17, 13, device=device),), {}, {"input": {0: Dim("batch", min=1, max=5)}}
