"""Cost of lowering beside torch's own decomposition of the same program.

    python benchmarks/lower.py [model ...]   the largest models of the zoo that build quickly, or those named

CPU seconds, one thread, in the same process, after a small program has warmed both: ``lower`` with the ops that stay
whole by default, ``lower`` keeping nothing (what ``run_decompositions()`` does), and ``run_decompositions()`` itself.
The target for the first is below a quarter of the last.  Where torch raises, its time until then stands with a mark.
"""

from __future__ import annotations

import gc
import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch.export import ExportedProgram
from torch.fx import GraphModule

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trtdiag
from tests.models import zoo
from trtdiag.capture.load import capture
from trtdiag.capture.program import Program
from trtdiag.lower.facts import Checked
from trtdiag.lower.lowered import lower
from trtdiag.lower.metadata import check_metadata

# Left out: unet_sdxl, the largest of all, for which torch alone takes minutes.
LARGEST = ("bert_base", "timm_swinv2_tiny_window8_256", "llm_gemma3_12l_static", "llm_llama_32l", "llm_qwen3_28l")
WARM_UP = "nerf_mlp"
TARGET_RATIO = 0.25


def cpu_seconds(work: Callable[[], object]) -> tuple[float, object, str]:
    """CPU seconds of one call, what it returned, and the class of what it raised."""
    gc.collect()
    start = time.process_time()
    try:
        made, raised = work(), ""
    except Exception as error:
        made, raised = None, type(error).__name__
    return time.process_time() - start, made, raised


def op_nodes(graph_module: GraphModule) -> int:
    return sum(node.op == "call_function" for node in graph_module.graph.nodes)


def measured(name: str) -> tuple[list[str], float]:
    """One row of the table, and the ratio of lowering to torch."""
    module, args, kwargs, dynamic_shapes = zoo.build(name)
    export_s, exported, _ = cpu_seconds(
        lambda: torch.export.export(module.eval(), args, kwargs, dynamic_shapes=dynamic_shapes)
    )
    if not isinstance(exported, ExportedProgram):
        raise SystemExit(f"{name} does not export")
    program = capture(exported)
    checked = check_metadata(program)
    ours_s, lowered, _ = cpu_seconds(lambda: lower(program, checked))
    all_s, _, _ = cpu_seconds(lambda: keep_nothing(program, checked))
    torch_s, decomposed, raised = cpu_seconds(exported.run_decompositions)
    theirs = str(op_nodes(decomposed.graph_module)) if isinstance(decomposed, ExportedProgram) else f"raises {raised}"
    ratio = ours_s / torch_s
    row = [
        *(name, str(op_nodes(exported.graph_module)), f"{export_s:.1f}"),
        *(str(op_nodes(lowered.graph_module)), str(lowered.traced), f"{ours_s:.2f}", f"{all_s:.2f}"),  # type: ignore[attr-defined]
        *(theirs, f"{torch_s:.2f}", f"{ratio:.3f}", f"{all_s / torch_s:.3f}"),
    ]
    return row, ratio


def keep_nothing(program: Program, checked: Checked) -> object:
    return lower(program, checked, lambda op: False)


def main(names: list[str]) -> None:
    """Measure the models and print the table."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    console = Console(width=170)
    console.print(f"command: python benchmarks/lower.py {' '.join(names)}".rstrip())
    console.print(f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}, one thread")
    console.print(f"trtdiag {trtdiag.__version__}, torch {torch.__version__}\n")
    measured(WARM_UP)
    table = Table(title="Lowering beside run_decompositions() (CPU seconds)")
    headings = (
        *("model", "op nodes", "export", "lowered ops", "traced", "lower", "keeping nothing"),
        *("torch's ops", "torch", "ratio", "keeping nothing"),
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=True)
    worst = 0.0
    for name in names or LARGEST:
        row, ratio = measured(name)
        worst = max(worst, ratio)
        table.add_row(*row)
        console.print(f"{name}: ratio {ratio:.3f}")
    console.print(table)
    console.print(
        f"largest ratio {worst:.3f}, target below {TARGET_RATIO}: {'met' if worst < TARGET_RATIO else 'MISSED'}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
