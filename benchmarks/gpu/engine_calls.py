"""What a call costs on a GPU: the compiled program, with and without CUDA graphs, beside TensorRT alone.

    python benchmarks/gpu/engine_calls.py --json calls.json --seconds 240

``bare`` is ``execute_async_v3`` of the same engine on memory that stays, ``bare graph`` that as one CUDA graph: the
floors.  ``run_into`` and ``into`` write results into memory that stays.  ``apart`` is the median of single calls, each
awaited, from the CUDA event before to the one after; ``in a row`` the time of a call among many that are handed over at
once; ``host`` what the CPU spends on handing one over.  Ratios are to ``bare`` in the same run; programs of several
engines have none, theirs are to ``plain``.  ``eager`` is float32.  Each case is a process of its own with a limit: one
that fails takes only its case with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "engine" / "tensorrt_backend"))

import torch
import torch.nn.functional as F
from engines_to_run import Alone, Between
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from trtdiag import Precision
from trtdiag.engine.tensorrt.context import EngineContext
from trtdiag.engine.tensorrt.context_memory import ContextMemory
from trtdiag.engine.tensorrt.engine_bindings import Ports
from trtdiag.engine.tensorrt.gpu import Gpu
from trtdiag.engine.tensorrt.lazy_import import import_tensorrt
from trtdiag.engine.tensorrt.log import logger_of
from trtdiag.engine.tensorrt.single_context import shares_profiles
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import engine_bytes
from trtdiag.runtime.engine_nodes import engine_nodes

Row = dict[str, Any]
COLUMNS = ("apart_us", "in_a_row_us", "host_us")


class Convolutions(nn.Module):
    """Many small kernels: 16 residual blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 4, 3)
        self.blocks = nn.ModuleList(nn.Conv2d(64, 64, 3, 1, 1) for _ in range(32))
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        for index in range(0, 32, 2):
            y = F.relu(y + self.blocks[index + 1](F.relu(self.blocks[index](y))))
        return self.last(y.mean((2, 3)))


class Parts(nn.Module):
    """Several engines with sums in PyTorch between them."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(Between() for _ in range(4))
        self.back = nn.ModuleList(nn.Linear(7, 5) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for part, back in zip(self.parts, self.back, strict=True):
            x = back(part(x)[0])
        return x


CASES: dict[str, Callable[[], tuple[nn.Module, Tensor, str]]] = {
    "small": lambda: (Alone(), torch.randn(7, 5), "keep"),
    "mid": lambda: (Convolutions(), torch.randn(8, 3, 224, 224), "fp16"),
    "parts": lambda: (Parts(), torch.randn(7, 5), "keep"),
}


def measured(call: Callable[[], object], seconds: float = 1.5) -> Row:
    """The three times of a call, in microseconds."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    single, until = [], time.perf_counter() + seconds
    while len(single) < 30 or (time.perf_counter() < until and len(single) < 2000):
        begin.record()
        call()
        end.record()
        end.synchronize()
        single.append(begin.elapsed_time(end) * 1e3)
    rows, host = [], []
    for _ in range(9):
        torch.cuda.synchronize()
        begin.record()
        started = time.perf_counter()
        for _ in range(50):
            call()
        host.append((time.perf_counter() - started) / 50 * 1e6)
        end.record()
        end.synchronize()
        rows.append(begin.elapsed_time(end) * 1e3 / 50)
    return {
        "apart_us": statistics.median(single),
        "apart_spread": [statistics.quantiles(single, n=10)[index] for index in (0, 8)],
        "in_a_row_us": statistics.median(rows),
        # Where the GPU is slower than the CPU, the queue fills and the CPU waits: the least round is the one to read.
        "host_us": min(host),
    }


def bare(made: CompiledProgram, x: Tensor) -> dict[str, Callable[[], object]]:
    """The one engine of a program without anything of ours around it, its recorded run, and what they hold."""
    trt = import_tensorrt().trt
    (node,) = engine_nodes(made.exported_program)
    runtime = trt.Runtime(logger_of(trt))
    engine = runtime.deserialize_cuda_engine(engine_bytes(node.engine))
    device = torch.device("cuda", torch.cuda.current_device())
    ports = Ports.of(trt, engine, node.manifest, device)
    scratch = ContextMemory(trt, engine, device)
    stream = torch.cuda.current_stream().cuda_stream
    context = EngineContext(ports, scratch, stream)
    context.take(scratch.own())
    given = ports.readable([x])
    context.tell(given, ports.key(given))
    outputs = context.outputs(given)
    context.enqueue(outputs, stream)
    execute = context.context.execute_async_v3
    held = (runtime, engine, given, outputs)
    print(f"scratch memory: {scratch.size_bytes:,} bytes", flush=True)
    replay = Gpu().record(device, lambda side: context.enqueue(outputs, side))

    def run() -> object:
        return execute(stream) and held

    return {"bare": run, "bare graph": replay}


def one_case(name: str, level: int, dynamic: bool) -> list[Row]:
    """Every way of calling one program."""
    torch.manual_seed(5)
    module, x, precision = CASES[name]()
    module, x = module.eval().cuda(), x.cuda()
    shares = shares_profiles(import_tensorrt().trt)  # without, a graph that the caller records cannot have its engine
    dims = {"x": {0: Dim("batch", min=1, max=2 * x.shape[0])}} if dynamic else None
    exported = export(module, (x,), dynamic_shapes=dims)
    begun = time.perf_counter()
    made = trtdiag.compile(
        exported,
        backend="tensorrt",
        precision=Precision(precision),
        optimization_level=level,
        min_segment_ops=1,
        keep_in_torch=("aten.cumsum",),
        verify=False,
    )
    build_s = time.perf_counter() - begun
    graphs = CompiledProgram(made.exported_program).cuda_graphs(4)
    saved_module = made.module()
    with torch.inference_mode():
        for _ in range(3):
            torch.testing.assert_close(graphs(x), made(x), rtol=0, atol=0)
    whole = torch.cuda.CUDAGraph() if shares or not dynamic else None
    still = x.clone()
    if whole is not None:
        with torch.no_grad():
            made(still)
            with torch.cuda.graph(whole):
                made(still)
    outputs = made(x)
    ways: dict[str, Callable[[], object]] = {} if len(made.manifests) > 1 else bare(made, x)
    ways |= {
        "plain": lambda: made(x),
        "run_into": lambda: made.run_into(outputs, x),
        "cuda_graphs": lambda: graphs(x),
        "cuda_graphs, into": lambda: graphs.run_into(outputs, x),
        "exported module": lambda: saved_module(x),
        "eager": lambda: module(x),
    }
    if whole is not None:
        ways["caller's graph"] = whole.replay
    found = []
    for way, call in ways.items():
        with torch.no_grad():
            row: dict[str, Any] = {
                "case": f"{name}, ranges" if dynamic else name,
                "way": way,
                "engines": len(made.manifests),
                "dynamic": dynamic,
                "build_s": round(build_s, 1),
            }
            try:
                row |= measured(call)
            except Exception as error:  # one way must not end the others
                row["error"] = f"{type(error).__name__}: {error}"
                traceback.print_exc()
        found.append(row)
    floor = next((row for row in found if row["way"] in ("bare", "plain") and "apart_us" in row), {})
    for row in found:
        row["ratios"] = {key: row[key] / floor[key] for key in COLUMNS if key in row and key in floor}
    return found


def table(rows: list[Row]) -> str:
    """The rows as text."""
    lines = [f"{'case':<14} {'way':<18} {'apart us':>10} {'x':>6} {'in a row us':>12} {'x':>6} {'host us':>9} {'x':>6}"]
    for row in rows:
        if "error" in row:
            lines.append(f"{row['case']:<14} {row.get('way', ''):<18} {row['error'][:300]}")
            continue
        cells = [
            f"{row[key]:>{width}.1f} {row['ratios'][key]:>6.2f}"
            for key, width in zip(COLUMNS, (10, 12, 9), strict=True)
        ]
        lines.append(f"{row['case']:<14} {row['way']:<18} {' '.join(cells)}")
    return "\n".join(lines)


def main() -> None:
    """Run all cases, each in its process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=240.0, help="for everything")
    parser.add_argument("--level", type=int, default=2, help="TensorRT's optimization level")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--ranges", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        print("\n" + json.dumps(one_case(asked.case, asked.level, asked.ranges)), flush=True)
        return
    ends = time.monotonic() + asked.seconds
    rows: list[Row] = []
    for name, more in ((name, more) for more in ([], ["--ranges"]) for name in CASES):
        left = ends - time.monotonic()
        command = [sys.executable, __file__, "--case", name, "--level", str(asked.level), *more]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=max(left, 1), check=False)
        except subprocess.TimeoutExpired:
            rows.append({"case": name, "error": "no time was left"})
            continue
        if done.returncode:
            rows.append({"case": name, "error": f"exit {done.returncode}: {done.stderr[-3000:]}"})
            print(done.stdout[-2000:], done.stderr[-6000:], sep="\n", flush=True)
            continue
        *notes, last = done.stdout.strip().splitlines()
        print(*notes, done.stderr[-2000:], sep="\n", flush=True)
        rows += json.loads(last)
    print(table(rows))
    if asked.json:
        facts = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "tensorrt": import_tensorrt().version}
        asked.json.write_text(json.dumps({"command": sys.argv, **facts, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
