"""How AOTInductor times a GPU's kernels to choose among them: as they run in a program, one right behind the other.

PyTorch times each run with the GPU's cache emptied and the host in the way: the GPU may wait until the host has
launched the kernel, which takes longer than a short one runs (about 20 us and 5 us on a host of an H200).  Of two
kernels of gelu it took the slower one, by a quarter, in one run and the faster in another (ADR 57).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_RUNS = 10
_ROUNDS = 5
_AHEAD_CYCLES = 4_000_000
"""Own choice, of a GPU's clock: about 2 ms, in which a host launches ``_RUNS`` kernels, and copies that some want."""
_LONGEST_MS = 25.0
"""What PyTorch spends on a kernel, too."""

Call = Callable[[], object]


def busy_ms(call: Call, cuda: Any = torch.cuda) -> float:
    """Milliseconds of a call's work on the current GPU, where work waits for the GPU and not the GPU for work.

    The least of some runs: what else runs there makes them longer alone.

    Args:
        call: Launches the work on the current stream.
        cuda: PyTorch's module.
    """
    call()
    cuda.synchronize()
    pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(_RUNS)]
    times: list[float] = []
    while len(times) < _RUNS * _ROUNDS and sum(times) < _LONGEST_MS:
        cuda._sleep(_AHEAD_CYCLES)  # noqa: SLF001  # nothing else keeps the GPU busy and its cache as it is
        for before, after in pairs:
            before.record()
            call()
            after.record()
        cuda.synchronize()
        times += [before.elapsed_time(after) for before, after in pairs]
    return min(times)


def time_kernels_as_they_run() -> None:
    """Let PyTorch's compiler time kernels of a GPU with ``busy_ms``, in all that this process compiles from now on."""
    from torch._inductor.runtime.benchmarking import benchmarker

    usual = benchmarker.benchmark_gpu

    def timed(call: Call, **how: Any) -> Any:
        plain = how.get("return_mode", "min") == "min" and not how.get("grad_to_none") and "quantiles" not in how
        return busy_ms(call) if plain else usual(call, **how)

    benchmarker.benchmark_gpu = timed
