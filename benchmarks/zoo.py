"""Every model of the zoo compiled on the reference backend and verified at the corners of its ranges.

    python benchmarks/zoo.py                             all models whose library is installed
    python benchmarks/zoo.py --models bert_base,tv_fcn   some
    python benchmarks/zoo.py --precision fp16 --target 8.6 --json out.json

Each model runs in a process of its own, one thread.  ``ops`` and ``flops`` are those of the lowered graph that are in
engines; FLOPs are what torch's counter knows (products, convolutions, attention) at the example's sizes.  ``segments``
is with ``min_segment_ops`` 5; beside it segments and CPU time of our partitioner and of torch.fx's
CapabilityBasedPartitioner on the same supported ops, without a minimum.  ``convert`` is wall time per 1,000 ops.
``points`` is how many sets of sizes were compared, ``rel`` the largest difference of an output, of its own magnitude.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from tests.models import zoo

CHILD = Path(__file__).with_name("zoo_case.py")
Row = dict[str, Any]


def row_of(name: str, asked: argparse.Namespace) -> Row:
    """One model in a process of its own."""
    command = [sys.executable, str(CHILD), name, asked.target, asked.precision, str(asked.point_s)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=asked.limit_s, check=False)
    except subprocess.TimeoutExpired:
        return {"model": name, "state": f"not finished in {asked.limit_s:.0f} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"model": name, "state": f"died: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"}
    return dict(json.loads(lines[-1]))


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"


def shown(table: Table, row: Row) -> None:
    if row["state"] != "compiled":
        table.add_row(row["model"], row["state"], *[""] * (len(table.columns) - 2))
        return
    verify, seconds = row["verify"], row["seconds"]
    table.add_row(
        row["model"],
        "ok" if verify.get("passed") else f"DIFFERS {(verify.get('off') or verify.get('failed') or ['?'])[0]}",
        str(row["ops"]),
        share(row["inside"], row["ops"]),
        share(row["flops_inside"], row["flops"]),
        str(row["segments"]),
        f"{row['every_segment']}/{row['torch_segments']}",
        f"{row['torch_partition_s'] / max(row['partition_s'], 1e-9):.1f}",
        f"{1000 * seconds.get('convert', 0) / max(row['ops'], 1):.2f}",
        f"{verify.get('points', 0)}+{len(verify.get('skipped', []))}",
        f"{verify.get('worst_rel') or 0:.1e}",
        ", ".join(f"{op} {count}" for op, count in list(row["fallback"].items())[:2]),
    )


def totals(rows: list[Row], console: Console) -> None:
    exported = [r for r in rows if not r["state"].startswith(("refused by torch.export", "needs"))]
    done = [r for r in exported if r["state"] == "compiled"]
    verified = [r for r in done if r["verify"].get("passed")]
    console.print(f"exported {len(exported)}, compiled {len(done)}, verified at every point that ran {len(verified)}")
    if not done:
        return
    ops, inside = sum(r["ops"] for r in done), sum(r["inside"] for r in done)
    flops, flops_in = sum(r["flops"] for r in done), sum(r["flops_inside"] for r in done)
    console.print(f"ops in engines {share(inside, ops)} % of {ops}, FLOPs in engines {share(flops_in, flops)} %")
    whole = sum(r["segments"] == 1 for r in done)
    console.print(f"one engine: {whole} of {len(done)}; engines in all {sum(r['segments'] for r in done)}")
    more = [r["model"] for r in done if r["every_segment"] > r["torch_segments"]]
    slower = [r["model"] for r in done if r["partition_s"] > r["torch_partition_s"]]
    console.print(f"more segments than torch.fx: {more or 'none'}; slower than torch.fx: {slower or 'none'}")
    convert = sum(r["seconds"].get("convert", 0) for r in done)
    console.print(f"conversion: {1000 * convert / ops:.2f} s per 1,000 ops")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names with commas between")
    parser.add_argument("--target", default="11.4")
    parser.add_argument("--precision", default="keep", choices=("keep", "fp16", "bf16"))
    parser.add_argument("--limit-s", type=float, default=600.0, help="of one model")
    parser.add_argument("--point-s", type=float, default=30.0, help="of one point, estimated; more is skipped")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", metavar="PATH")
    asked = parser.parse_args()
    names = asked.models.split(",") if asked.models else list(zoo.ZOO)
    console = Console(width=220)
    table = Table(title=f"zoo on {platform.processor() or platform.machine()}, {asked.jobs} at a time")
    for column in ("model", "state", "ops", "% in", "% FLOPs", "engines", "ours/fx", "fx/our s", "convert"):
        table.add_column(column)
    for column in ("points", "rel", "left to PyTorch"):
        table.add_column(column)
    rows: list[Row] = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for row in pool.map(lambda name: row_of(name, asked), names):
            rows.append(row)
            print(row["model"], row["state"], row.get("verify", {}), file=sys.stderr, flush=True)
            if asked.json:
                Path(asked.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for row in rows:
        shown(table, row)
    console.print(table)
    totals(rows, console)


if __name__ == "__main__":
    main()
