"""The whole command beside the export of its program, in CPU seconds (user and system) of processes of their own.

    python benchmarks/whole_command.py                           the zoo, the smallest first, then Llama 3 of all sizes
    python benchmarks/whole_command.py --every 2                 each second model of the zoo, then Llama 3
    python benchmarks/whole_command.py espcn bert_base           some models
    python benchmarks/whole_command.py --total-s 1200 --json out.json
    python benchmarks/whole_command.py --no-llama --beside ../trtdiag-before

One process builds and exports a model and saves it; its export is ``torch.export.export`` alone, torch and the model's
library imported and the model built.  The next is ``trtdiag analyze model.pt2``, from the command to the page, torch's
import and all.  ``ratio`` is this over the export; ``of process`` over all that the first process took.  Both run in
turns, one thread each, so that a busy machine slows them alike; ``--beside`` puts that of another checkout between
them.  The first row is ``import torch`` alone: less, no command takes.  What is not run within ``--total-s`` is told.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryDirectory
from typing import Any

import llama
from rich.console import Console
from rich.table import Table
from zoo import BY_OPS

ROOT = Path(__file__).resolve().parent.parent
EXPORT = Path(__file__).with_name("zoo_export.py")
NEEDS = {
    **dict.fromkeys(("tv_retinanet", "yolov8n_nms"), "benchmarks.torchvision_ops"),
    "llm_qwen3_moe_8l": "transformers.integrations.moe",
}
"""Models with ops or classes that a library registers, and what the command is told to import for them."""
TARGETS = (0.8, 1.5)
"""The median of the ratio, and the worst."""
Row = dict[str, Any]


def cpu_seconds(command: list[str], root: Path, cwd: str) -> tuple[float, str]:
    """CPU seconds of a process and its children, and what it printed; its exit code is 0.

    Raises:
        RuntimeError: It is another; the text has the beginning of its standard error.
    """
    paths = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    # Modules are compiled once, as ever.
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    with Path(cwd, "stderr").open("w+b") as told:
        process = Popen(command, cwd=cwd, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=told)
        assert process.stdout is not None
        printed = process.stdout.read().decode(errors="replace")
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if status:
            told.seek(0)
            raise RuntimeError(told.read().decode(errors="replace").strip()[:200] or "no output")
    return usage.ru_utime + usage.ru_stime, printed


def command_seconds(path: Path, root: Path, imports: str | None) -> float:
    """CPU seconds of ``trtdiag analyze`` of a checkout on a file."""
    command = [sys.executable, "-m", "trtdiag", "analyze", path.name, "-o", "page.html", "-q", "--fail-on", "never"]
    if imports is not None:
        command += ["--import", imports]
    return cpu_seconds(command, root, str(path.parent))[0]


def row_of(name: str, beside: Path | None) -> Row:
    """One model: its export, and the command on it."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.pt2")
        try:
            process_s, printed = cpu_seconds([sys.executable, str(EXPORT), name, str(path), "cpu"], ROOT, folder)
            told = json.loads(printed.strip().splitlines()[-1])
            if told["state"] != "exported":
                return {"model": name, "state": told["state"]}
            before = None if beside is None else command_seconds(path, beside, NEEDS.get(name))
            command_s = command_seconds(path, ROOT, NEEDS.get(name))
        except RuntimeError as error:
            return {"model": name, "state": f"failed: {error}"}
    row = {"model": name, "state": "ok", "nodes": told["nodes"], "export_s": told["export_s"], "process_s": process_s}
    return {**row, "command_s": command_s, "before_s": before}


def table_of(rows: list[Row], torch_s: float, *, beside: bool) -> Table:
    """The rows as a table, with the median and the worst ratio below."""
    found = [row for row in rows if row["state"] == "ok"]
    heads = ["model", "op nodes", "export", "its process", "command", "ratio", "of process"]
    table = Table(title="The whole command beside its export (CPU seconds)")
    for head in [*heads, *(["before", "ratio before"] if beside else [])]:
        table.add_column(head, justify="left" if head == "model" else "right", no_wrap=True)
    table.add_row("import torch", "", "", f"{torch_s:.2f}", "", "", "")
    for row in found:
        cells = [
            row["model"],
            str(row["nodes"]),
            *(f"{row[key]:.2f}" for key in ("export_s", "process_s", "command_s")),
        ]
        cells += [f"{row['command_s'] / row[key]:.2f}" for key in ("export_s", "process_s")]
        if beside:
            cells += [f"{row['before_s']:.2f}", f"{row['before_s'] / row['export_s']:.2f}"]
        table.add_row(*cells)
    for said, of in (("median", statistics.median), ("worst", max)):
        if found:
            over = [(key, below) for key in ("command_s", "before_s") for below in ("export_s", "process_s")]
            shares = {(key, below): of([row[key] / row[below] for row in found]) for key, below in over[: 2 + beside]}
            cells = [f"{share:.2f}" for share in shares.values()]
            table.add_row(said, "", "", "", "", *cells[:2], *(["", *cells[2:]] if beside else []))
    return table


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="of the zoo; default: all, the smallest first")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of all models each N-th")
    parser.add_argument("--total-s", type=float, default=float("inf"), help="no model begins after so many seconds")
    parser.add_argument("--no-llama", action="store_true", help="the zoo alone")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another checkout, whose command runs in turns")
    parser.add_argument("--json", metavar="PATH", help="write the rows")
    return parser.parse_args()


def main() -> None:
    """Run what is asked for and print the table."""
    asked = parsed()
    console = Console(width=140)
    ends = time.monotonic() + asked.total_s
    beside = None if asked.beside is None else asked.beside.resolve()
    with TemporaryDirectory() as folder:
        torch_s = min(cpu_seconds([sys.executable, "-c", "import torch"], ROOT, folder)[0] for _ in range(3))
        for checkout in filter(None, (ROOT, beside)):
            cpu_seconds([sys.executable, "-m", "compileall", "-q", str(checkout / "trtdiag")], ROOT, folder)
    rows: list[Row] = []
    for name in asked.models or BY_OPS[:: asked.every]:
        left = time.monotonic() < ends
        rows.append(row_of(name, beside) if left else {"model": name, "state": "not run"})
        if asked.json:
            body = {"python": platform.python_version(), "cores": os.cpu_count(), "torch_s": torch_s, "rows": rows}
            Path(asked.json).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
        if left:
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    console.print(f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores")
    console.print(table_of(rows, torch_s, beside=beside is not None))
    shares = [row["command_s"] / row["export_s"] for row in rows if row["state"] == "ok"]
    if shares:
        for said, share, target in zip(
            ("median", "worst"), (statistics.median(shares), max(shares)), TARGETS, strict=True
        ):
            console.print(f"{said} ratio {share:.2f}, target {target}: {'met' if share <= target else 'MISSED'}")
    for state in sorted({row["state"] for row in rows} - {"ok"}):
        console.print(f"{state}: {', '.join(row['model'] for row in rows if row['state'] == state)}", markup=False)
    for size in () if asked.no_llama else llama.SIZES:
        llama.run(size)


if __name__ == "__main__":
    main()
