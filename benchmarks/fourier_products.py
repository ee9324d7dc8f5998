"""Fourier transforms as products with constant matrices beside torch's FFT, by length: where products pay.

    python benchmarks/fourier_products.py [--device cuda] [--numbers 2097152]

Each row transforms the same count of real numbers in rows of one length.  Times are of the device: CPU seconds of one
thread, or CUDA events; the least of several runs.  What a product does inside an engine is the same arithmetic.
Errors are the largest beside float64, in parts of the largest frequency of a row.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch

from trtdiag.lower.complex.exponentials import MOST_TERMS, arithmetic, factors, of_fft
from trtdiag.lower.complex.pair import Call
from trtdiag.lower.complex.transforms import fourier, transform_of
from trtdiag.lower.template import UntraceableError

LENGTHS = (8, 16, 31, 64, 101, 128, 200, 256, 400, 480, 509, 512, 600, 1021, 1024, 1497, 2048, 4096, 16384, 65536)
RUNS = 7
R2C = torch.ops.aten._fft_r2c.default


def least(run: Callable[[], object], device: str) -> float:
    """The least time of a run, in seconds."""
    run()
    best = float("inf")
    for _ in range(RUNS):
        if device == "cuda":
            ends = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            ends[0].record()
            run()
            ends[1].record()
            torch.cuda.synchronize()
            best = min(best, ends[0].elapsed_time(ends[1]) / 1000)
        else:
            begun = time.process_time()
            run()
            best = min(best, time.process_time() - begun)
    return best


def error(spectrum: torch.Tensor, x: torch.Tensor) -> float:
    """How far a spectrum is off at most, in parts of the largest frequency of its row."""
    exact = torch.fft.rfft(x.double())
    return float(((spectrum - exact).abs() / exact.abs().amax(-1, keepdim=True)).max())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--numbers", type=int, default=1 << 21)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__} on {asked.device}, {asked.numbers:,} numbers, sums of at most {MOST_TERMS} terms")
    print("points  products   FFT ns/number   products / FFT   arithmetic / FFT   error   of the FFT")
    for points in LENGTHS:
        x = torch.randn(max(1, asked.numbers // points), points, device=asked.device)
        given = {"self": x, "dim": [1], "normalization": 0, "onesided": True}
        wanted = least(partial(torch.fft.rfft, x), asked.device)
        try:
            transform = transform_of(R2C._schema.name, given, x)
        except UntraceableError as why:
            print(points, why)
            continue
        tables = [table.tables(torch.float32) for along in transform.dims for table in along.tables()]
        tables = [type(pair)(pair.real.to(asked.device), pair.imag.to(asked.device)) for pair in tables]
        call = Call(R2C, True, torch.float32, x.device, tables)
        got = least(partial(fourier, call, **given), asked.device)
        split = " x ".join(map(str, factors(points)))
        more = arithmetic(points, real=True) / of_fft(points, real=True)
        made = fourier(call, **given)
        off = error(torch.complex(made.real, made.imag), x), error(torch.fft.rfft(x), x)
        told = f"{points:6}  {split:9}  {wanted / x.numel() * 1e9:13.3f}  {got / wanted:14.1f}x  {more:14.1f}x"
        print(f"{told}   {off[0]:.1e} {off[1]:.1e}")


if __name__ == "__main__":
    main()
