"""Cost of lowering beside torch's own decomposition of the same program.

    python benchmarks/lower.py [model ...] [--limit SECONDS]   the five largest models of the zoo, or those named

Each model is measured in a process of its own, which ends after the limit (600 CPU seconds): CPU seconds, one thread,
after a small program has warmed both.  ``lower`` with the ops that stay whole by default, ``lower`` keeping nothing
(what ``run_decompositions()`` does), and ``run_decompositions()`` itself, whose class of error stands in its place
where it raises.  ``differ`` is the largest difference at the example between the program itself and its lowered form,
relative to the largest value of each output; ``torch's`` is the same for ``run_decompositions()``.  The target for the
ratio of ``lower`` to torch is below a quarter.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trtdiag
from tests.lower.agreement import called, user_outputs
from tests.models import zoo
from trtdiag.frontend.capture import capture
from trtdiag.lower.lowered import lower
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.lower.metadata import check_metadata

LARGEST = ("unet_sd15", "llm_llama_32l", "flux_dit", "llm_qwen3_28l", "unet_sdxl")
WARM_UP = "nerf_mlp"
TARGET_RATIO = 0.25
HEADINGS = (
    *("model", "op nodes", "export s", "lowered ops", "traced", "lower s", "keeping nothing s", "torch's ops"),
    *("torch s", "ratio", "keeping nothing", "differ", "torch's"),
)


def cpu_seconds(work: Callable[[], object]) -> tuple[float, Any, str]:
    """CPU seconds of one call, what it returned, and the class of what it raised."""
    gc.collect()
    start = time.process_time()
    try:
        made, raised = work(), ""
    except Exception as error:
        made, raised = None, type(error).__name__
    return time.process_time() - start, made, raised


def op_nodes(graph_module: torch.fx.GraphModule) -> int:
    return sum(node.op == "call_function" for node in graph_module.graph.nodes)


def difference(got: Sequence[Any], wanted: Sequence[Any]) -> str:
    """The largest difference relative to the largest value of its output."""
    worst = 0.0
    for ours, theirs in zip(got, wanted, strict=True):
        if isinstance(theirs, torch.Tensor) and theirs.numel():
            scale = max(theirs.double().abs().nan_to_num(0, 0, 0).max().item(), 1e-30)
            apart = (ours.double() - theirs.double()).abs().nan_to_num(0, 0, 0).max().item()
            worst = max(worst, apart / scale)
    return f"{worst:.0e}"


def measured(name: str) -> list[str]:
    """One row of the table; every part is printed when it is known, so that a limit loses only what comes after."""
    module, args, kwargs, dynamic_shapes = zoo.build(name)
    export_s, exported, raised = cpu_seconds(
        lambda: torch.export.export(module.eval(), args, kwargs, dynamic_shapes=dynamic_shapes)
    )
    if not isinstance(exported, ExportedProgram):
        raise SystemExit(f"{name} does not export: {raised}")
    row = [name, str(op_nodes(exported.graph_module)), f"{export_s:.1f}"]
    program = capture(exported)
    checked = check_metadata(program)
    ours_s, lowered, _ = cpu_seconds(lambda: lower(program, checked))
    all_s, _, _ = cpu_seconds(lambda: lower(program, checked, lambda op: False))
    assert isinstance(lowered, Lowered)
    row += [str(op_nodes(lowered.graph_module)), str(lowered.traced), f"{ours_s:.2f}", f"{all_s:.2f}"]
    show(row)
    torch_s, decomposed, raised = cpu_seconds(exported.run_decompositions)
    theirs = str(op_nodes(decomposed.graph_module)) if isinstance(decomposed, ExportedProgram) else f"raises {raised}"
    row += [theirs, f"{torch_s:.2f}", f"{ours_s / torch_s:.3f}", f"{all_s / torch_s:.3f}"]
    show(row)
    flat, spec = pytree.tree_flatten((args, kwargs))
    with torch.no_grad():
        wanted = called(exported.module(), spec, flat)
        row.append(difference(user_outputs(lowered, flat), wanted))
        if isinstance(decomposed, ExportedProgram):
            _, values, raised = cpu_seconds(lambda: called(decomposed.module(), spec, flat))
            row.append(difference(values, wanted) if not raised else f"raises {raised}")
    show(row)
    return row


def show(row: list[str]) -> None:
    print(json.dumps(row), flush=True)


def row_of(name: str, limit_s: float) -> list[str]:
    """What a process of its own measured, as far as it came."""
    command = [sys.executable, __file__, "--one", name]
    # Of CPU time: on a busy machine the same work takes longer, and is the same work.
    limit = (int(limit_s), int(limit_s) + 5)
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),  # one thread, and it only makes this call
    )
    why = "" if ended.returncode == 0 else (ended.stderr.strip().splitlines() or ["?"])[-1]
    if ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        why = f"not finished in {limit_s:.0f} s"
    rows = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[")]
    row: list[str] = rows[-1] if rows else [name]
    return [*row, why] if why else row


def main(names: Sequence[str], limit_s: float) -> None:
    """Measure the models and print the table."""
    console = Console(width=190)
    console.print(f"command: python benchmarks/lower.py {' '.join(names)}".rstrip())
    console.print(f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}, one thread")
    console.print(f"trtdiag {trtdiag.__version__}, torch {torch.__version__}\n")
    table = Table(title="Lowering beside run_decompositions() (CPU seconds)")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=heading == "model")
    ratios: list[float] = []
    for name in names or LARGEST:
        row = row_of(name, limit_s)
        console.print(" ".join(row))
        table.add_row(*row[: len(HEADINGS)])
        if len(row) > 9:
            ratios.append(float(row[9]))
    console.print(table)
    if ratios:
        verdict = "met" if max(ratios) < TARGET_RATIO else "MISSED"
        console.print(
            f"largest ratio of {len(ratios)} models {max(ratios):.3f}, target below {TARGET_RATIO}: {verdict}"
        )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--one", help="measure one model in this process")
    given = parser.parse_args()
    if given.one:
        lower_small = zoo.build(WARM_UP)
        warm = torch.export.export(lower_small[0].eval(), *lower_small[1:3], dynamic_shapes=lower_small[3])
        lower(capture(warm), check_metadata(capture(warm)))
        warm.run_decompositions()
        measured(given.one)
    else:
        main(given.names, given.limit)
