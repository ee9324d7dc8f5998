"""Every model of the zoo that exports, planned and built by TensorRT-RTX's own builder, which needs no GPU.

    python benchmarks/real_builder.py --release rtx-1.7=FOLDER --release rtx-1.4=FOLDER
    python benchmarks/real_builder.py --models espcn,deepfm --targets rtx-1.7 --precisions keep,fp16 --limit-s 120

Each release is a folder that the wheels of ``tensorrt-rtx`` were installed into (``pip install --target FOLDER``): they
share the name of their module, so that one environment has one.  Without ``--release`` the installed one is asked.
A model is exported once, with the dims of ``fix_dims`` where its own are refused; then each target and precision plans,
converts and builds it in processes of their own, so that what ends a process is a row.  A row says ``built``, or with
what op and line the builder refused, and whether it then built the rest with that op left to PyTorch.
Nothing is run: there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.models import zoo

ROOT = Path(__file__).resolve().parent.parent
CHILD = Path(__file__).with_name("real_builder_case.py")
RESULTS = Path(__file__).with_name("results")
KEYS = ("model", "target", "precision")
Row = dict[str, Any]


def child(case: Row, limit_s: float, folder: str | None = None) -> Row:
    """What a step in a process of its own came to; ``folder`` has the release to ask."""
    paths = [str(ROOT), folder, os.environ.get("PYTHONPATH")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    environment.setdefault("OMP_NUM_THREADS", "1")
    began = time.monotonic()
    # A group of its own: the builder runs in a child of the child, which must not go on alone.
    process = subprocess.Popen(
        [sys.executable, str(CHILD), json.dumps(case)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return {"state": f"not finished in {limit_s:.0f} s", "wall_s": round(limit_s, 1)}
    lines, wall_s = out.strip().splitlines(), round(time.monotonic() - began, 1)
    if not lines:
        last = (err.strip().splitlines() or ["no output"])[-1]
        return {"state": f"the process ended ({process.returncode}): {last[:300]}", "wall_s": wall_s}
    return {**json.loads(lines[-1]), "wall_s": wall_s}


def rows_of(name: str, asked: argparse.Namespace, known: dict[tuple[str, ...], Row]) -> Iterator[Row]:
    """A model's rows: one for each target and precision, or one that says why it is not exported."""
    wanted = [pair for pair in product(asked.targets, asked.precisions) if (name, *pair) not in known]
    if not wanted:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/{name}.pt2"
        there = child({"export": name, "program": path}, asked.limit_s)
        if there["state"] != "exported":
            yield {"model": name, "target": "", "precision": "", **there}
            return
        for target, precision in wanted:
            case = {
                "model": name,
                "program": path,
                "target": target,
                "precision": precision,
                "gpus": asked.gpus,
                "engine_s": asked.engine_s,
            }
            found = child(case, asked.limit_s, asked.folders.get(target))
            yield {"model": name, "target": target, "precision": precision, "dims": there["dims"], **found}


def kept_rows(path: Path) -> dict[tuple[str, ...], Row]:
    """The rows of an earlier run that had an answer, by model, target and precision."""
    if not path.exists():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    unfinished = ("not finished", "the process ended", "crash", "needs")
    return {tuple(row[key] for key in KEYS): row for row in rows if not row["state"].startswith(unfinished)}


def summary(rows: list[Row]) -> Row:
    """By target and precision: how many models in each state, what was built, and how long that took."""
    found: Row = {}
    for target, precision in dict.fromkeys((row["target"], row["precision"]) for row in rows):
        own = [row for row in rows if (row["target"], row["precision"]) == (target, precision)]
        found[f"{target} {precision}".strip() or "not exported"] = {
            "models": len(own),
            "states": dict(Counter(row["state"].partition(":")[0] for row in own).most_common()),
            **{key: round(sum(row.get(key, 0) for row in own), 1) for key in ("engines", "layers", "bytes", "build_s")},
        }
    return found


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names with commas between; default: the whole zoo")
    parser.add_argument("--targets", default="rtx-1.7", help="with commas between: rtx-1.4, rtx-1.7, 10.16, 11.4")
    parser.add_argument("--precisions", default="keep", help="with commas between: keep, fp16, bf16")
    parser.add_argument("--gpus", default="sm89", help="GPU generations that one engine is built for; all: each")
    parser.add_argument("--release", action="append", default=[], metavar="TARGET=FOLDER", help="who builds a target")
    parser.add_argument("--limit-s", type=float, default=900.0, help="of one model for one target and precision")
    parser.add_argument("--engine-s", type=float, default=600.0, help="of one engine")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="rows there are kept; default: results/real-builder-TARGETS.json")
    asked = parser.parse_args()
    for name in ("targets", "precisions", "gpus"):
        setattr(asked, name, getattr(asked, name).split(","))
    asked.folders = {entry.partition("=")[0]: str(Path(entry.partition("=")[2]).resolve()) for entry in asked.release}
    asked.json = asked.json or RESULTS / f"real-builder-{'-'.join(asked.targets)}.json"
    return asked


def main() -> None:
    """Runs what is asked for, and writes after each model."""
    asked = parsed()
    rows = kept_rows(asked.json)
    names = asked.models.split(",") if asked.models else sorted(zoo.ZOO)
    began = time.monotonic()
    with ThreadPoolExecutor(asked.jobs) as pool:
        waiting = [pool.submit(lambda name=name: list(rows_of(name, asked, rows))) for name in names]
        for done in as_completed(waiting):
            for row in done.result():
                rows[tuple(row[key] for key in KEYS)] = row
                told = " ".join(str(row.get(key, "")) for key in (*KEYS, "state", "layers", "build_s", "wall_s"))
                print(f"{time.monotonic() - began:6.1f} s {told}", file=sys.stderr, flush=True)
            every = [rows[key] for key in sorted(rows)]
            content = {"machine": _machine(), "summary": summary(every), "rows": every}
            asked.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary(list(rows.values())), indent=1))


def _machine() -> str:
    from importlib.metadata import version

    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, torch {version('torch')}"


if __name__ == "__main__":
    main()
