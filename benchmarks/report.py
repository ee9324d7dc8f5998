"""What the HTML report of a large program weighs and takes, beside its budgets.

    python benchmarks/report.py [nodes ...]          1000, 5000 and 10000 where none is named; half a minute

Made-up transformers with dynamic sizes (`tests/browser/large_program.py`), analyzed, written as HTML, and opened in the
system's Chromium.  Wall times; in the browser each is the best of several turns, by the browser's own clock
(`tests/browser/page_times.py`; `make budgets` holds the same numbers to their limits).  Run it on a machine that does
nothing else.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/browser"))

from chromium import CHROMIUM
from large_program import large_program
from page_times import BUDGETS, TURNS, page_times

import trtdiag

HEADS = {
    "kb": "KB",
    "generation_s": "generation s",
    "paint_ms": "first paint ms",
    "expand_ms": "expand ms",
    "search_ms": "search letter ms",
    "reveal_ms": "reveal ms",
}


def main(arguments: list[str]) -> None:
    """Print a row for each size."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    console = Console(width=140)
    if CHROMIUM is None:
        sys.exit("no Chromium or Chrome is installed on this machine")
    table = Table(title=f"Report pages: measured / most, best of {TURNS}")
    for name in ("nodes", *HEADS.values()):
        table.add_column(name, justify="right", no_wrap=True)
    for nodes in map(int, arguments or BUDGETS):
        program = large_program(nodes)
        taken = asdict(page_times(trtdiag.analyze(program, target="11.4")))
        most = asdict(BUDGETS[nodes]) if nodes in BUDGETS else {}
        cells = [f"{taken[name]:.3g}" + (f" / {most[name]:,}" if most else "") for name in HEADS]
        table.add_row(f"{len(program.graph.nodes):,}", *cells)
    console.print(f"command: python benchmarks/report.py {' '.join(arguments)}".rstrip())
    load = f"{os.getloadavg()[0]:.1f} processes wanted one in the last minute"
    console.print(f"trtdiag {trtdiag.__version__}, torch {torch.__version__}, {os.cpu_count()} cores, {load}")
    console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
