"""Fourier transforms as products in one engine, as FFTs of PyTorch between engines, and whole programs in PyTorch.

    python benchmarks/gpu/fourier.py --json fourier.json

``products`` is what trtdiag makes of them; ``ffts`` leaves the transforms to PyTorch (``keep_in_torch``), the rest is
in engines; ``eager`` is the model.  Times are medians of single calls from the CUDA event before to the one after, in
microseconds; calls of all take turns.  ``error`` is the largest difference to the model in float64, in parts of its
largest element.  ``--backend reference --device cpu`` tries the script where there is no GPU.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import Tensor, nn

import trtdiag
from tests.compiling.test_complex_programs import LogMel, Operator

FFTS = ("aten._fft_r2c", "aten._fft_c2r", "aten._fft_c2c")
SECOND = 16_000


class Filter(nn.Module):
    """A long convolution by the spectrum of a learned filter, as in state-space models."""

    def __init__(self, channels: int, length: int) -> None:
        super().__init__()
        self.length = length
        self.taps = nn.Parameter(torch.randn(channels, length) / length)
        self.mix = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        points = 2 * self.length
        made = torch.fft.irfft(torch.fft.rfft(x, n=points) * torch.fft.rfft(self.taps, n=points), n=points)
        return self.mix(nn.functional.gelu(made[..., : self.length]))  # type: ignore[no-any-return]  # a module gives Any


# Name -> the model, and the sizes of its input.
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "log-mel 400, 1 x 30 s": (lambda: LogMel(400), (1, 30 * SECOND)),
    "log-mel 400, 8 x 30 s": (lambda: LogMel(400), (8, 30 * SECOND)),
    "log-mel 1024, 8 x 30 s": (lambda: LogMel(1024), (8, 30 * SECOND)),
    "operator 64 x 64, batch 8": (lambda: Operator(width=32, modes=12, layers=4), (8, 2, 64, 64)),
    "operator 256 x 256, batch 1": (lambda: Operator(width=32, modes=12, layers=4), (1, 2, 256, 256)),
    "filter of 256, 8 x 64": (lambda: Filter(64, 256), (8, 64, 256)),
    "filter of 4096, 8 x 64": (lambda: Filter(64, 4096), (8, 64, 4096)),
}


def once(program: Any, x: Tensor) -> float:
    """Microseconds of one call that is awaited."""
    if not x.is_cuda:
        begun = time.perf_counter()
        program(x)
        return (time.perf_counter() - begun) * 1e6
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    program(x)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000


def row(name: str, device: str, backend: str, rounds: int) -> dict[str, Any]:
    """The times of one case."""
    torch.manual_seed(7)
    build, size = CASES[name]
    model = build().eval()
    inputs = [trtdiag.Input(size)]
    how: dict[str, Any] = {"backend": backend, "verify": False, "min_segment_ops": 0}
    kept: dict[str, Any] = {"keep_in_torch": FFTS}
    programs: dict[str, Any] = {
        "products": trtdiag.compile(model, inputs=inputs, **how),
        "ffts": trtdiag.compile(model, inputs=inputs, **how, **kept),
    }
    engines = {f"engines, {kind}": len(program.manifests) for kind, program in programs.items()}
    x = torch.randn(size, device=device)
    exact = copy.deepcopy(model).double().to(device)
    for parameter in exact.parameters():  # complex ones are left as they are
        if parameter.is_complex():
            parameter.data = parameter.data.to(torch.complex128)
    programs["eager"] = model.to(device)
    times: dict[str, list[float]] = {kind: [] for kind in programs}
    with torch.no_grad():
        wanted = exact(x.double())
        off = {
            kind: float((program(x) - wanted).abs().max() / wanted.abs().max()) for kind, program in programs.items()
        }
        for turn in range(rounds + 10):
            for kind in sorted(programs, reverse=bool(turn % 2)):
                took = once(programs[kind], x)
                if turn >= 10:
                    times[kind].append(took)
    found = {kind: round(statistics.median(own), 1) for kind, own in times.items()}
    errors = {f"error, {kind}": float(f"{value:.1e}") for kind, value in off.items()}
    return {"case": name, **engines, **found, "ratio": round(found["products"] / found["ffts"], 3), **errors}


def main() -> None:
    """Print each case as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--only", default="", help="Cases with this in their name.")
    asked = parser.parse_args()
    rows = []
    for name in CASES:
        if asked.only in name:
            rows.append(row(name, asked.device, asked.backend, asked.rounds))
            print(rows[-1], flush=True)
    if asked.json is not None:
        gpu = torch.cuda.get_device_name() if asked.device == "cuda" else "none"
        asked.json.write_text(json.dumps({"gpu": gpu, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
