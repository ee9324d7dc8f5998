"""A process of ``benchmarks/gpu/builds.py``: does one part, and prints a JSON line for each step."""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import Tensor, nn
from torch.export import Dim

from trtdiag.engine.backend import Profile, get_backend
from trtdiag.engine.build import Engine
from trtdiag.engine.parallel_builds import build_engines
from trtdiag.engine.profiles import usual_inputs
from trtdiag.engine.tensorrt.lazy_import import import_tensorrt
from trtdiag.engine.tensorrt.log import Listeners
from trtdiag.errors import TrtdiagError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target

WIDTHS = (32, 48, 64, 96)
RUNS = 60
Wanted = list[tuple[Network, Profile]]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, 1, 1), nn.Conv2d(width, width, 3, 1, 1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.second(torch.relu(self.first(x)))) + x)


def convnet(width: int, blocks: int) -> nn.Module:
    """A stem and so many residual blocks."""
    torch.manual_seed(width)
    body = [Block(width) for _ in range(blocks)]
    return nn.Sequential(nn.Conv2d(3, width, 7, 2, 3), nn.ReLU(), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()


def program(width: int, blocks: int, device: str) -> Any:
    """It with an example and a dynamic batch."""
    example = torch.randn(4, 3, 128, 128, device=device)
    return convnet(width, blocks).to(device), (example,), {}, {"input": {0: Dim("batch", min=1, max=8)}}


def large_program() -> Any:
    """One that takes long to build."""
    return program(96, 24, "cuda")


def wanted(count: int = len(WIDTHS)) -> Wanted:
    """The networks of so many models in float32, with the sizes to build them for."""
    made: Wanted = []
    options = CompileOptions(get_target(None).version, "reference", verify=False)
    for width in WIDTHS[:count]:
        found = compile_in_stages(program(width, 3, "cpu"), options)
        for converted, engine in zip(found.converted, found.engines, strict=True):
            made.append((converted.network, {port.name: port.profile for port in engine.manifest.inputs}))
    return made


def latency_ms(engine: Engine) -> float:
    """The median time of a run at the usual sizes."""
    runner = get_backend("tensorrt").load(memoryview(engine.blob), engine.manifest)
    given = usual_inputs(engine.manifest, "cuda")
    times = []
    for turn in range(RUNS + 10):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        runner(given)
        end.record()
        end.synchronize()
        if turn >= 10:
            times.append(begin.elapsed_time(end))
    return round(statistics.median(times), 4)


def built(networks: Wanted, **options: Any) -> tuple[tuple[Engine, ...], float]:
    """Engines, and the seconds that they took."""
    begun = time.perf_counter()
    engines = build_engines(get_backend("tensorrt"), networks, CompileOptions(**options), get_target(None))
    return engines, round(time.perf_counter() - begun, 2)


def jobs(level: int) -> Iterator[dict[str, Any]]:
    """Several at once beside one at a time."""
    networks = wanted()
    built(networks[:1], optimization_level=0)  # TensorRT loads its libraries once
    for count in (1, 4, 2, 1):
        engines, seconds = built(networks, optimization_level=level, build_jobs=count)
        yield {"level": level, "jobs": count, "build_s": seconds, "latency_ms": [latency_ms(one) for one in engines]}


def cache(level: int) -> Iterator[dict[str, Any]]:
    """Without, with an empty, and with a filled timing cache; from the engine cache."""
    networks = wanted(2)
    built(networks[:1], optimization_level=0)
    with TemporaryDirectory() as folder:
        timings, kept = str(Path(folder) / "timings"), str(Path(folder) / "engines")
        for name, options in (
            ("plain", {}),
            ("timing cache, empty", {"timing_cache": timings}),
            ("timing cache, filled", {"timing_cache": timings}),
            ("engine cache, empty", {"engine_cache": kept, "timing_cache": timings}),
            ("engine cache, filled", {"engine_cache": kept}),
            ("two at once with one timing cache", {"timing_cache": str(Path(folder) / "both"), "build_jobs": 2}),
            ("after two at once", {"timing_cache": str(Path(folder) / "both")}),
        ):
            engines, seconds = built(networks, optimization_level=level, **options)
            row = {"level": level, "with": name, "build_s": seconds, "saved": [one.saved for one in engines]}
            row["latency_ms"] = [latency_ms(one) for one in engines]
            row["bytes"] = {path.name[:12]: path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()}
            yield row


def compatible(_level: int) -> Iterator[dict[str, Any]]:
    """For other GPUs and versions; what this version refuses, in its words."""
    networks = wanted(1)
    for options in (
        {},
        {"hardware_compatibility": "ampere+"},
        {"version_compatible": True},
        {"hardware_compatibility": "ampere+", "version_compatible": True},
        {"hardware_compatibility": "same-compute-capability"},
    ):
        try:
            engines, seconds = built(networks, optimization_level=1, **options)
            row = {"build_s": seconds, "bytes": len(engines[0].blob), "latency_ms": latency_ms(engines[0])}
            row["manifest"] = str(engines[0].manifest.compatibility)
        except TrtdiagError as error:
            row = {"error": str(error)}
        yield {**options, **row}


def threads(_level: int) -> Iterator[dict[str, Any]]:
    """Which threads TensorRT speaks in, and how often Python runs while it builds."""
    heard: dict[str, int] = {}
    hear = Listeners.hear

    def noted(self: Listeners, severity: str, text: str) -> None:
        name = threading.current_thread().name
        heard[name] = heard.get(name, 0) + 1
        hear(self, severity, text)

    Listeners.hear = noted  # type: ignore[method-assign]  # to see what it is told
    ticks, done = [0], threading.Event()

    def tick() -> None:
        while not done.wait(0.01):
            ticks[0] += 1

    networks = wanted(2)
    for count in (1, 2):
        heard.clear()
        ticks[0] = 0
        done.clear()
        ticker = threading.Thread(target=tick)
        ticker.start()
        _, seconds = built(networks, optimization_level=1, build_jobs=count)
        done.set()
        ticker.join()
        yield {
            "jobs": count,
            "build_s": seconds,
            "lines": dict(heard),
            "python_ran": round(ticks[0] * 0.01 / seconds, 2),
        }


if __name__ == "__main__":
    name, _, told_level = sys.argv[1].partition("-")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no row
    print(
        json.dumps({"tensorrt": import_tensorrt().version, "gpu": torch.cuda.get_device_name()}), file=out, flush=True
    )
    for found in {"jobs": jobs, "cache": cache, "compatible": compatible, "threads": threads}[name](
        int(told_level or 1)
    ):
        print(json.dumps(found), file=out, flush=True)
