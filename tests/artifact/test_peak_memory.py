"""What a hundred megabytes of weights more add to the peak memory of each stage, each in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import memory

SMALL_GB, LARGE_GB = 0.1, 0.4
LIMITS = {
    "analyze": 0.1,
    "compile, save": 1.3,
    "load": 0.1,  # nothing is called yet
    "load, call": 1.1,
    "compile a live program": 1.3,
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell the peak by /proc")
def test_peaks_grow_no_more_than_weights(tmp_path: Path) -> None:
    peaks: list[dict[str, float]] = []
    sizes = []
    for index, size in enumerate((SMALL_GB, LARGE_GB)):
        folder = tmp_path / str(index)
        folder.mkdir()
        source, compiled = folder / "source.pt2", folder / "compiled.pt2"
        sizes.append(memory.made(source, size) / 1e6)
        peaks.append({stage: memory.measured(stage, source, compiled)["VmHWM"] for stage in LIMITS})
    grown = {stage: (peaks[1][stage] - peaks[0][stage]) / (sizes[1] - sizes[0]) for stage in LIMITS}
    assert all(grown[stage] <= limit for stage, limit in LIMITS.items()), grown
