"""The source of a factory whose program refuses odd numbers of rows, at line 7."""

from __future__ import annotations

FACTORY = """
import torch
from torch.export import Dim

class Pairs(torch.nn.Module):
    def forward(self, x):
        return x.reshape(-1, 2).sum(1)

def build():
    return Pairs(), (torch.randn(8),), {}, {"x": {0: Dim("rows", min=4, max=40)}}
"""
