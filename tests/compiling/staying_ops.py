"""A program of which ops stay with PyTorch beside an engine, and times in the place of measured ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trtdiag.benchmark.clock import Timed
from trtdiag.pipeline import compile_pytorch_segments, latency, timed_pytorch_segments

ALL, NONE = "the same, what stays compiled", "AOTInductor, with what has no converter"
MIXED = "1 engine, all else compiled"
"""Programs that are timed whole, by name; that of before has none."""
FASTER = {"eager": 2.0, "compiled": 1.0}


class Picks(nn.Module):
    """An engine, then ops on float64 and on rows that only data picks: of equal rows all are picked, or none."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.first(x).relu()
        kept = (y[:, 4].double() > 0.1).nonzero()[:, 0]
        rows = y[kept].double()
        order = torch.argsort(rows[:, 0], stable=True)
        return rows[order].cumsum(0) / 3, order, rows > 1


def timed(monkeypatch: pytest.MonkeyPatch, stay: Mapping[str, float], wholes: Mapping[str, float]) -> None:
    """Give these times in the place of measured ones: of segments that stay, and of whole programs by their name.

    An engine of the backend is faster than the same ops compiled.
    """

    def told(calls: Mapping[str, Any], *_: object) -> dict[str, Timed]:
        for call in calls.values():
            call()  # each way runs
        known = {
            **{name: 1.0 if name in ("reference", "tensorrt", "0") else 5.0 for name in calls},
            MIXED: 20.0,
            **stay,
            **wholes,
        }
        return {name: Timed([known[name]], [known[name]]) for name in calls}

    for module in (latency, timed_pytorch_segments, compile_pytorch_segments):
        monkeypatch.setattr(module, "take_turns", told)
