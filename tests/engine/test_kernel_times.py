"""How kernels are timed that AOTInductor chooses among."""

from __future__ import annotations

import pytest

from trtdiag.engine.inductor import kernel_times
from trtdiag.engine.inductor.kernel_times import busy_ms, time_kernels_as_they_run

LAUNCH_MS, RECORD_MS = 0.015, 0.003
"""What a slow host needs to launch a kernel, and to record an event."""


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self._gpu, self.at = gpu, 0.0

    def record(self) -> None:
        self._gpu.host += RECORD_MS
        self.at = self._gpu.busy_until = max(self._gpu.busy_until, self._gpu.host)

    def elapsed_time(self, end: Event) -> float:
        return end.at - self.at


class Gpu:
    """Runs what it is given in order, from when the host has launched it, as a stream of CUDA does."""

    def __init__(self) -> None:
        self.host, self.busy_until, self.kernels = 0.0, 0.0, 0

    def Event(self, *, enable_timing: bool) -> Event:
        assert enable_timing
        return Event(self)

    def synchronize(self) -> None:
        self.host = max(self.host, self.busy_until)

    def _sleep(self, cycles: int) -> None:
        self.host += LAUNCH_MS
        self.busy_until = max(self.busy_until, self.host) + cycles / 2e6

    def kernel(self, took_ms: float) -> None:
        self.host += LAUNCH_MS
        self.busy_until = max(self.busy_until, self.host) + took_ms
        self.kernels += 1


def in_turns_ms(gpu: Gpu, took_ms: float) -> float:
    """What events around a launch say where the GPU waits for the host."""
    gpu.synchronize()
    before, after = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    before.record()
    gpu.kernel(took_ms)
    after.record()
    return before.elapsed_time(after)


@pytest.mark.parametrize("took_ms", [0.0011, 0.005, 0.0064, 0.2])
def test_kernel_is_timed_without_the_launch(took_ms: float) -> None:
    gpu = Gpu()
    assert in_turns_ms(gpu, took_ms) >= LAUNCH_MS + RECORD_MS
    # Differences of the fake's clock, which counts some hundred milliseconds in floats.
    assert busy_ms(lambda: gpu.kernel(took_ms), gpu) == pytest.approx(took_ms, abs=1e-9)


def test_long_kernel_runs_few_times() -> None:
    gpu = Gpu()
    assert busy_ms(lambda: gpu.kernel(40.0), gpu) == pytest.approx(40.0)
    assert gpu.kernels <= 11


def test_pytorch_asks_for_these_times(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.runtime.benchmarking import benchmarker

    gpu = Gpu()
    monkeypatch.setattr(benchmarker, "benchmark_gpu", lambda *_args, **_how: [1.0, 2.0])
    monkeypatch.setattr(kernel_times, "busy_ms", lambda call: busy_ms(call, gpu))
    time_kernels_as_they_run()
    # As ``CachingAutotuner.bench`` asks, torch 2.11 to 2.15.
    found = benchmarker.benchmark(lambda: gpu.kernel(0.005), device="cuda", rep=40, is_vetted_benchmarking=True)
    assert found == pytest.approx(0.005, abs=1e-9)
    # All times are asked of PyTorch itself.
    assert benchmarker.benchmark_gpu(lambda: gpu.kernel(0.005), return_mode="all") == [1.0, 2.0]
