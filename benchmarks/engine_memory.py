"""Memory that compiling, calling, saving and loading take beside a model of 100 MB, as multiples of its engine.

Run: ``python benchmarks/engine_memory.py``.  Linux: resident memory is read from ``/proc`` every two milliseconds.
"""

from __future__ import annotations

import gc
import os
import resource
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn
from torch.export import export

import trtdiag

T = TypeVar("T")


def resident_bytes() -> int:
    """Memory of this process that is in use now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def watched(name: str, run: Callable[[], T], engine_bytes: int) -> T:
    """Run and print the growth at its peak, and what stays of it."""
    gc.collect()
    before = peak = resident_bytes()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, resident_bytes())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        made = run()
    finally:
        done.set()
        thread.join()
    gc.collect()
    stays = resident_bytes() - before
    print(f"{name:<12} peak {(peak - before) / engine_bytes:>6.2f}x   stays {stays / engine_bytes:>6.2f}x")
    return made


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    small = nn.Linear(3, 3)
    x = torch.randn(2, 2048)
    trtdiag.compile(export(small, (x[:, :3],)), backend="reference", min_segment_ops=1)  # imports are not counted
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(6)]).eval().requires_grad_(False)
    engine = sum(weight.nbytes for weight in model.parameters())
    print(f"engine of {engine / 1e6:.0f} MB")
    exported = export(model, (x,))
    compiled = watched(
        "compile",
        lambda: trtdiag.compile(exported, backend="reference", min_segment_ops=1, verify=False),
        engine,
    )
    watched("first call", lambda: compiled(x), engine)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.ep")
        watched("save", lambda: trtdiag.save(compiled, path), engine)
        watched("load", lambda: trtdiag.load(path), engine)


if __name__ == "__main__":
    main()
