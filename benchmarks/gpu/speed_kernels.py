"""Where the time of a call goes on the GPU, kernel by kernel, as torch's profiler sees it.

    python benchmarks/gpu/speed_kernels.py speed.json      the table of a run of speed.py

CUDA graphs are profiled as well: their kernels are seen one by one.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

CALLS = 5
GENERATED = ("triton_", "__myl_")
"""How kernels begin that a compiler wrote for what it fused: their names have those of the ops in them."""
KINDS = {
    "attention": r"mha|flash|fmha|attention|softmax",
    "convolution": r"conv|fprop|dgrad|implicit|cudnn",
    "product": r"gemm|cutlass|cublas|nvjet|xmma|matmul|_mm_|addmm|bmm|splitk",
    "copy": r"copy|memcpy|reformat|permut|transpos|shuffle|cast|memset|nhwc|nchw",
    "own": "",
}
"""Of a kernel, the first whose pattern its name has: ``own`` are norms, activations and what else is generated."""


def kind_of(name: str) -> str:
    """Which of ``KINDS`` a kernel is."""
    if name.startswith(GENERATED):
        return "own"
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, name.lower()))


def kernels_of(call: Callable[[], Any]) -> dict[str, Any]:
    """Microseconds of one call: those of each kernel, of all, and from the first one's start to the last one's end.

    A kernel counts with the median of its runs, times their number: some are long when other work comes between.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    with torch.no_grad():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            for _ in range(CALLS):
                call()
            torch.cuda.synchronize()
    events = [each for each in seen.profiler.kineto_results.events() if str(each.device_type()).endswith("CUDA")]
    events = [each for each in events if each.duration_ns() > 0 and not each.name().startswith("Context Sync")]
    if not events:
        return {}
    begins = min(each.start_ns() for each in events)
    ends = max(each.start_ns() + each.duration_ns() for each in events)
    spent: dict[str, list[float]] = {}
    for each in events:
        spent.setdefault(each.name()[:200], []).append(each.duration_ns() / 1e3)
    rows = sorted(
        ((name, len(every) / CALLS, statistics.median(every) * len(every) / CALLS) for name, every in spent.items()),
        key=_heaviest,
    )
    return {
        "span_us": round((ends - begins) / 1e3 / CALLS, 1),
        "busy_us": round(sum(us for *_, us in rows), 1),
        "kernels": [{"name": name, "count": count, "us": round(us, 1)} for name, count, us in rows],
    }


def kernels_by_way(ways: Mapping[str, Callable[[], Any]]) -> dict[str, dict[str, Any]]:
    """The kernels of each way to run a model; nothing without a GPU."""
    import torch

    found: dict[str, dict[str, Any]] = {}
    for way, call in ways.items() if torch.cuda.is_available() else ():
        try:
            found[way] = kernels_of(call)
        except Exception as error:  # the times are there already
            found[way] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return found


def _heaviest(row: tuple[str, float, float]) -> float:
    return -row[2]


def by_kind(kernels: Iterable[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Of each kind, how many kernels a call has and their microseconds."""
    found: dict[str, tuple[float, float]] = dict.fromkeys(KINDS, (0.0, 0.0))
    for row in kernels:
        count, us = found[kind_of(row["name"])]
        found[kind_of(row["name"])] = count + row["count"], us + row["us"]
    return found


def shown(models: Mapping[str, Any]) -> str:
    """A table: of each model and way, microseconds by kind of kernel, and how many kernels."""
    heads = "".join(f"{kind:>18}" for kind in KINDS)
    lines = [f"{'us (kernels)':<34}{heads}{'busy':>10}{'span':>10}"]
    for name, model in models.items():
        for way, row in model["ways"].items():
            if row.get("kernels"):
                kinds = by_kind(row["kernels"]["kernels"])
                cells = "".join(f"{f'{us:.0f} ({count:.0f})':>18}" for count, us in kinds.values())
                ends = f"{row['kernels']['busy_us']:>10.0f}{row['kernels']['span_us']:>10.0f}"
                lines.append(f"{f'{name} {way}':<34}{cells}{ends}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(shown(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["models"]))
