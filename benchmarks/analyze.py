"""Cost of an analysis: beside the export of the same program, and as the program grows.

    python benchmarks/analyze.py                     both parts, a few minutes
    python benchmarks/analyze.py ratio [model ...]   the largest models of the zoo, or those named
    python benchmarks/analyze.py growth [nodes ...]  made-up chains of layers

Ratio: CPU time of ``trtdiag.analyze`` on a live program over that of the ``torch.export.export`` that made it, in the
same process, one thread, after a small program has warmed both.  The target is a quarter.  Writing the report is
not part of it and has a column of its own.

Growth: CPU time and peak memory (tracemalloc, in a second run that is not timed) over the number of op nodes, with
the exponent k of cost = c * nodes^k, fitted by least squares on logarithms: 1 is linear.
"""

from __future__ import annotations

import gc
import platform
import sys
import time
import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trtdiag
from tests.models import zoo
from trtdiag.report.report import Report

# The dev zoo's largest by op nodes on torch 2.13: 3781, 2375 and 2067 of them.
LARGEST = ("unet_sdxl", "llm_qwen3_28l", "llm_llama_32l")
NODES = (1_000, 2_000, 4_000, 7_000, 10_000)
TARGET_RATIO = 0.25
BLOCK_NODES = 10


@dataclass(frozen=True)
class Timed:
    """CPU and wall seconds of one call."""

    cpu_s: float
    wall_s: float


@contextmanager
def stopwatch() -> Iterator[list[Timed]]:
    """Times a with-block; the list holds the result when it ends."""
    gc.collect()
    spent: list[Timed] = []
    cpu, wall = time.process_time(), time.perf_counter()
    yield spent
    spent.append(Timed(time.process_time() - cpu, time.perf_counter() - wall))


class Block(nn.Module):
    """Ten op nodes: linear, relu, two views and what they need of sizes, a slice, a sum, a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x).relu()
        y = y.unflatten(-1, (2, -1)).transpose(1, 2).transpose(1, 2).flatten(-2)
        return self.norm(torch.cat([x, y], 1)[:, : x.shape[1]] + y)


def chain(nodes: int) -> ExportedProgram:
    """A program of about ``nodes`` op nodes with a dynamic batch and length."""
    model = nn.Sequential(*[Block(8) for _ in range(nodes // BLOCK_NODES)]).eval()
    dims = {0: Dim("batch", min=1, max=32), 1: Dim("length", min=2, max=512)}
    return torch.export.export(model, (torch.randn(2, 7, 8),), dynamic_shapes=(({0: dims[0], 1: dims[1]},)))


def op_nodes(program: ExportedProgram) -> int:
    return sum(node.op == "call_function" for node in program.graph.nodes)


def stage_seconds(report: Report) -> dict[str, float]:
    return {stage.name: stage.seconds for stage in report.analysis.stages}


def ratio(names: tuple[str, ...], console: Console) -> None:
    """Analysis over export for models of the zoo."""
    table = Table(title="Analysis of a live program beside its export (seconds)")
    for column in (
        "model",
        "op nodes",
        "export CPU",
        "export wall",
        "analysis CPU",
        "wall",
        "ratio CPU",
        "report wall",
    ):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    worst = 0.0
    stages: dict[str, dict[str, float]] = {}
    for name in names:
        module, args, kwargs, dynamic_shapes = zoo.build(name)
        with stopwatch() as export:
            program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
        with stopwatch() as analysis:
            report = trtdiag.analyze(program)
        with stopwatch() as written:
            report.to_html()
        share = analysis[0].cpu_s / export[0].cpu_s
        worst = max(worst, share)
        stages[name] = stage_seconds(report)
        seconds = (export[0].cpu_s, export[0].wall_s, analysis[0].cpu_s, analysis[0].wall_s)
        told = [f"{value:.2f}" for value in seconds]
        table.add_row(name, str(op_nodes(program)), *told, f"{share:.3f}", f"{written[0].wall_s:.2f}")
    console.print(table)
    console.print(stage_table("Stages (wall seconds)", stages))
    console.print(
        f"largest ratio {worst:.3f}, target below {TARGET_RATIO}: {'met' if worst < TARGET_RATIO else 'MISSED'}\n"
    )


def growth(sizes: tuple[int, ...], console: Console) -> None:
    """Time and memory over the number of nodes."""
    table = Table(title="Growth on chains of layers")
    for column in ("op nodes", "CPU s", "CPU ms per 1,000 nodes", "peak MiB", "KiB per node", "export CPU s", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    nodes: list[int] = []
    seconds: list[float] = []
    peaks: list[float] = []
    stages: dict[str, dict[str, float]] = {}
    for size in sizes:
        with stopwatch() as export:
            program = chain(size)
        with stopwatch() as analysis:
            report = trtdiag.analyze(program)
        count, cpu_s = op_nodes(program), analysis[0].cpu_s
        stages[str(count)] = stage_seconds(report)
        peak = peak_bytes(program)
        nodes.append(count)
        seconds.append(cpu_s)
        peaks.append(peak)
        table.add_row(
            str(count),
            f"{cpu_s:.2f}",
            f"{cpu_s / count * 1e6:.0f}",
            f"{peak / 2**20:.1f}",
            f"{peak / count / 2**10:.1f}",
            f"{export[0].cpu_s:.1f}",
            f"{cpu_s / export[0].cpu_s:.3f}",
        )
    console.print(table)
    per_thousand = {
        count: {name: value * 1e6 / int(count) for name, value in of_stage.items()}
        for count, of_stage in stages.items()
    }
    console.print(stage_table("Stages (wall ms per 1,000 nodes)", per_thousand))
    if len(sizes) > 1:
        console.print(
            f"time ~ nodes^{exponent(nodes, seconds):.2f}, peak memory ~ nodes^{exponent(nodes, peaks):.2f}\n"
        )


def peak_bytes(program: ExportedProgram) -> int:
    """The most memory that one analysis holds beyond what the program held before it."""
    gc.collect()
    tracemalloc.start()
    try:
        trtdiag.analyze(program)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def exponent(nodes: list[int], cost: list[float]) -> float:
    """k of cost = c * nodes^k."""
    return float(np.polyfit(np.log(nodes), np.log(cost), 1)[0])


def stage_table(title: str, stages: dict[str, dict[str, float]]) -> Table:
    """One row for each stage, one column for each program."""
    table = Table(title=title)
    table.add_column("stage", no_wrap=True)
    for name in stages:
        table.add_column(name, justify="right", no_wrap=True)
    for stage in next(iter(stages.values())):
        table.add_row(stage, *(f"{of.get(stage, 0.0):.3g}" for of in stages.values()))
    return table


def processor() -> str:
    """The name of the processor, as far as the system tells."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main(arguments: list[str]) -> None:
    """Run the parts that the command line names."""
    parts = {"ratio", "growth"}
    part = arguments[0] if arguments else ""
    if part and part not in parts:
        sys.exit(__doc__)
    console = Console(width=140)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    console.print(f"command: python benchmarks/analyze.py {' '.join(arguments)}".rstrip())
    console.print(f"machine: {processor()}, {platform.system()}, Python {platform.python_version()}, one thread")
    console.print(f"trtdiag {trtdiag.__version__}, torch {torch.__version__}\n")
    trtdiag.analyze(chain(BLOCK_NODES)).to_html()
    if part in ("", "ratio"):
        ratio(tuple(arguments[1:]) or LARGEST, console)
    if part in ("", "growth"):
        growth(tuple(map(int, arguments[1:])) or NODES, console)


if __name__ == "__main__":
    main(sys.argv[1:])
