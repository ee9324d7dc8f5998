"""The benchmarks' backend that runs the reference functions where a GPU is; here it runs on the CPU."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
import torch

import trtdiag
from trtdiag.engine import backend as registry

ROOT = Path(__file__).resolve().parents[2]


def _compiled(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(registry, "_HOMES", {**registry._HOMES, "reference-cuda": "benchmarks.reference_elsewhere"})
    reference_elsewhere = import_module("benchmarks.reference_elsewhere")
    monkeypatch.setattr(reference_elsewhere, "backend", lambda: reference_elsewhere.Reference(device))
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.LayerNorm(7), torch.nn.Flatten()).to(device).eval()
    x = torch.randn(3, 2, 5, device=device)
    dims = {"input": {0: torch.export.Dim("batch", min=1, max=11)}}
    compiled = trtdiag.compile((module, (x,), {}, dims), backend="reference-cuda", min_segment_ops=0, target="11.4")

    for batch in (1, 7, 11):
        given = torch.randn(batch, 2, 5, device=device)
        with torch.inference_mode():
            actual, expected = compiled(given), module(given)
        assert actual.device == expected.device
        # Seven terms, each right to 2**-24, in another order.
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)


def test_a_program_runs_where_its_inputs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    _compiled(monkeypatch, "cpu")


@pytest.mark.gpu
def test_a_program_runs_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    _compiled(monkeypatch, "cuda")
