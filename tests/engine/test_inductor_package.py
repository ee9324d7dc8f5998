"""Segments that several threads have compiled by AOTInductor at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trtdiag.engine.inductor import package


def test_segments_are_saved_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.export.save refuses beside another: "Refusing to stomp on existing FakeTensor reducer"."""
    segments = [torch.export.export(nn.Linear(3, size), (torch.randn(2, 3),)) for size in (1, 2, 5, 7)]
    saving, most, save = [0], [0], torch.export.save

    def counted(*args: Any) -> None:
        saving[0] += 1
        most[0] = max(most[0], saving[0])
        time.sleep(0.02)  # so that others come meanwhile
        save(*args)
        saving[0] -= 1

    monkeypatch.setattr(torch.export, "save", counted)
    monkeypatch.setattr(package, "_compile", lambda _, code, _threads: Path(code).write_bytes(b"code"))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda segment: package.compiled_bytes(segment, "cpu"), segments))
    assert (len(set(made)), most) == (4, [1])
