"""What the GPU copies outside of engines in a loop of decode steps, as PyTorch's profiler of CUDA saw it.

    python benchmarks/gpu/decode_copies.py own --steps 50
    python benchmarks/gpu/decode_copies.py static-cache --precision fp16

The programs are those of ``examples/generate.py``.  A row is a way to run one: for each step, the copies of memory on
the GPU with their bytes, and the kernels of PyTorch that ran beside the engine; ``as much as a cache`` counts copies of
at least a whole cache's bytes, which a step must not have.  Copies inside of an engine are kernels of TensorRT.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import torch
from generate import MODELS, Step, ways  # type: ignore[import-not-found]
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import trtdiag
from tests.models.torchvision_ops import declare_missing_ops


def traced(run: Step, steps: int) -> list[dict[str, Any]]:
    """The events of the device in ``steps`` steps, warmed up before."""
    device = torch.device("cuda")
    token = torch.tensor([[3]], device=device)
    places = [torch.tensor([at], device=device) for at in range(steps + 3)]
    for at in range(3):
        run(token, places[at])
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for at in range(3, steps + 3):
            run(token, places[at])
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        events: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    return [event for event in events if event.get("cat") in ("gpu_memcpy", "gpu_memset", "kernel")]


def row(way: str, run: Step, caches: Sequence[Tensor], steps: int) -> dict[str, Any]:
    """Counts of one way to run a program, for all steps together."""
    least = min(cache.nbytes for cache in caches)
    copies: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    whole = 0
    for event in traced(run, steps):
        if event["cat"] == "gpu_memcpy":
            size = int(event["args"]["bytes"])
            copies[f"{event['name']}, {size} bytes"] += 1
            whole += size >= least
        elif event["cat"] == "kernel":
            own = "at::native" in event["name"] or "at_cuda" in event["name"]
            kernels[f"PyTorch: {event['name'][:120]}" if own else "the engine's"] += 1
    told = {"copies": dict(copies), "kernels": dict(kernels)}
    return {"way": way, "steps": steps, "bytes of a cache": least, "as much as a cache": whole, **told}


def main() -> int:
    """Print the rows; 1 where a step copied a cache."""
    declare_missing_ops()  # transformers imports torchvision where it is installed
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--precision", default="keep")
    parser.add_argument("--cuda-graphs", type=int, default=0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.manual_seed(0)
    model = MODELS[asked.model](asked.steps + 3, "cuda")
    exported = torch.export.export(model.module, model.args, model.kwargs, strict=False)
    compiled = trtdiag.compile(
        exported, backend="tensorrt", precision=asked.precision, cuda_graphs=asked.cuda_graphs, optimization_level=1
    )
    rows = []
    with torch.no_grad():
        for way, program in ways(compiled).items():
            run, caches = model.step(program)
            rows.append(row(way, run, caches, asked.steps))
            print(json.dumps(rows[-1], indent=1), flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return int(any(each["as much as a cache"] for each in rows))


if __name__ == "__main__":
    sys.exit(main())
