"""Every model of the zoo that exports, planned and built by TensorRT-RTX's own builder, which needs no GPU.

    python benchmarks/real_builder.py --release rtx-1.7=FOLDER --release rtx-1.4=FOLDER
    python benchmarks/real_builder.py --models espcn,deepfm --targets rtx-1.7 --precisions keep,fp16 --limit-s 120
    python benchmarks/real_builder.py --programs FOLDER    keeps the exported models there for the next run
    python benchmarks/real_builder.py --each-gpu --precisions fp16 --models espcn,deepfm

Each release is a folder that the wheels of ``tensorrt-rtx`` were installed into (``pip install --target FOLDER``): they
share the name of their module, so that one environment has one.  Without ``--release`` the installed one is asked.
A model is exported once, in a process of its own, with the dims of ``fix_dims`` where its own are refused; then each
target and precision plans, converts and builds it in a process of its own, so that what ends a process is a row.  A row
says ``built``, or with what op and line the builder refused, and whether it then built the rest with that op left to
PyTorch.  ``build_s`` is the wall time of the planned engines, ``build_cpu_s`` the processor time of all builds, which
other work on the machine moves little.  The models with the fewest ops come first.  ``--each-gpu`` compiles as
``trtdiag compile --gpu all --engine-per-gpu --no-verify`` does, and tells size and seconds of each GPU generation's own
engines.  Nothing is run: there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from real_builder_case import all_steps, import_libraries
from zoo import BY_OPS

from tests.models.zoo import ZOO

RESULTS = Path(__file__).with_name("results")
KEYS = ("model", "target", "precision")
UNFINISHED = ("not finished", "the process ended", "crash", "needs")
"""How the states begin that another run may better."""
SUMS = ("engines", "layers", "bytes", "build_s", "build_cpu_s")
Row = dict[str, Any]
Key = tuple[str, ...]


def rows_of(name: str, asked: argparse.Namespace, known: dict[Key, Row]) -> list[Row]:
    """A model's rows that are not known yet: one for each target and precision."""
    runs = [
        {"model": name, "target": target, "precision": precision}
        for target, precision in product(asked.targets, asked.precisions)
        if (name, target, precision) not in known
    ]
    if not runs:
        return []
    case = {
        "model": name,
        "programs": str(asked.programs),
        "runs": [{**run, "release": asked.folders.get(run["target"])} for run in runs],
        "gpus": asked.gpus,
        "each_gpu": asked.each_gpu,
        "build_limit_s": asked.build_limit_s,
    }
    told, why = _lines(case, asked.limit_s * len(runs))
    export: Row = told[0] if told else {"state": why}
    found = told[1:]
    if export["state"] != "exported":
        return [{**run, **export} for run in runs]
    late = [{"state": why} for _ in runs[len(found) :]]
    return [{**run, "dims": export["dims"], **row} for run, row in zip(runs, [*found, *late], strict=True)]


def _lines(case: Row, limit_s: float) -> tuple[list[Row], str]:
    """What a model's process said, a line for the export and one for each run, and why no more came."""
    context = multiprocessing.get_context("fork")  # the libraries of all models are imported once
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=all_steps, args=(case, theirs))
    child.start()
    theirs.close()
    found: list[Row] = []
    why = f"not finished in {limit_s:.0f} s"
    ends = time.monotonic() + limit_s
    try:
        while ours.poll(max(0.0, ends - time.monotonic())):
            found.append(json.loads(ours.recv_bytes()))
    except EOFError:
        child.join()
        why = f"the process ended ({child.exitcode})"
    finally:
        if child.is_alive() and child.pid:
            # Its whole group: the builder runs in a child of its child, which must not go on alone.
            os.killpg(child.pid, signal.SIGKILL)
        child.join()
    return found, why


def kept_rows(path: Path) -> dict[Key, Row]:
    """The rows of an earlier run that had an answer, by model, target and precision."""
    if not path.exists():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {tuple(row[key] for key in KEYS): row for row in rows if not row["state"].startswith(UNFINISHED)}


def summary(rows: Sequence[Row]) -> Row:
    """By target and precision: how many models in each state, what was built, and how long that took."""
    found: Row = {}
    for target, precision in dict.fromkeys((row["target"], row["precision"]) for row in rows):
        own = [row for row in rows if (row["target"], row["precision"]) == (target, precision)]
        found[f"{target} {precision}"] = {
            "models": len(own),
            "states": dict(Counter(row["state"].partition(":")[0] for row in own).most_common()),
            **{key: round(sum(row.get(key, 0) for row in own), 1) for key in SUMS},
        }
    return found


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names with commas between; default: the whole zoo")
    parser.add_argument("--targets", default="rtx-1.7", help="with commas between: rtx-1.4, rtx-1.7, 10.16, 11.4")
    parser.add_argument("--precisions", default="keep", help="with commas between: keep, fp16, bf16")
    parser.add_argument("--gpus", default="sm89", help="GPU generations that one engine is built for; all: each")
    parser.add_argument("--each-gpu", action="store_true", help="compile an engine for each GPU generation there is")
    parser.add_argument("--release", action="append", default=[], metavar="TARGET=FOLDER", help="who builds a target")
    parser.add_argument("--limit-s", type=float, default=900.0, help="of one model for one target and precision")
    parser.add_argument("--build-limit-s", type=float, default=600.0, help="of a model's builds, as --build-limit")
    parser.add_argument("--programs", type=Path, help="a folder that keeps the exported models; default: kept nowhere")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of real-builder-TARGET.json; rows are kept"
    )
    asked = parser.parse_args()
    for name in ("targets", "precisions", "gpus"):
        setattr(asked, name, getattr(asked, name).split(","))
    asked.folders = {entry.partition("=")[0]: str(Path(entry.partition("=")[2]).resolve()) for entry in asked.release}
    return asked


def names_of(asked: argparse.Namespace) -> list[str]:
    """The models that are asked for, those with the fewest ops first, and last those of which no count is known."""
    if asked.models:
        return list(asked.models.split(","))
    order = {name: index for index, name in enumerate(BY_OPS)}
    return sorted(ZOO, key=lambda name: (order.get(name, len(order)), name))


def run(asked: argparse.Namespace) -> list[Row]:
    """The rows of all models, written after each."""
    kind = "real-builder-each-gpu" if asked.each_gpu else "real-builder"
    files = {target: asked.results / f"{kind}-{target}.json" for target in asked.targets}
    rows = {key: row for path in files.values() for key, row in kept_rows(path).items()}
    began = time.monotonic()
    for name in names_of(asked):
        for row in rows_of(name, asked, rows):
            rows[tuple(row[key] for key in KEYS)] = row
            told = " ".join(str(row.get(key, "")) for key in (*KEYS, "state", "layers", "build_s", "all_s"))
            print(f"{time.monotonic() - began:6.1f} s {told}", file=sys.stderr, flush=True)
        for target, path in files.items():
            own = [rows[key] for key in sorted(rows) if rows[key]["target"] == target]
            content = {"machine": _machine(), "summary": summary(own), "rows": own}
            path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return list(rows.values())


def main() -> None:
    """Run what is asked for."""
    asked = parsed()
    import_libraries()
    with tempfile.TemporaryDirectory() as folder:
        asked.programs = (asked.programs or Path(folder)).resolve()
        asked.programs.mkdir(parents=True, exist_ok=True)
        print(json.dumps(summary(run(asked)), indent=1))


def _machine() -> str:
    from importlib.metadata import version

    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, torch {version('torch')}"


if __name__ == "__main__":
    main()
