"""TensorRT beside the reference functions: every layer kind and the small models, in each dtype, on this GPU.

    python benchmarks/gpu/parity.py --json parity.json            everything, a few minutes
    python benchmarks/gpu/parity.py --only 'layer:resize|network' --workers 1

``layer`` is one layer as a network, at the least, two middle and the greatest sizes; ``network`` the networks of a
small model at the least, usual and greatest sizes; ``program`` the compiled model beside PyTorch on the CPU.
``worst`` is the largest difference of floats, of the reference's magnitude where that is above 1; ``wrong`` counts
other elements that are not the same.  Cases run in processes: one that dies takes only its case with it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "engine" / "tensorrt_backend"))

from case_pool import Pool, Row, rows_file
from gpu_parity import LAYER_DTYPES, PRECISIONS
from layer_samples import CASES
from seed_models import SEEDS

from trtdiag.targets import get_target, installed_version

WORKER = Path(__file__).with_name("parity_worker.py")


def keys(only: str) -> list[str]:
    """What there is to do, models first: they take longest."""
    every = [f"{part}:{name}:{p}" for p in PRECISIONS for part in ("network", "program") for name in SEEDS]
    every += [f"layer:{name}:{dtype}" for dtype in LAYER_DTYPES for name in CASES]
    return [key for key in every if re.search(only, key)]


def shown(rows: list[Row]) -> None:
    """What matters, as text."""
    print(f"{'state':9} {'worst':>9} {'wrong':>6} {'build s':>7}  case")
    for row in sorted(rows, key=lambda row: (row["state"], row["key"])):
        if row["state"] == "none":
            continue
        worst, build = row.get("worst"), row.get("build_s")
        shown_worst = "" if worst is None else f"{worst:.1e}"
        numbers = f"{shown_worst:>9} {row.get('wrong', ''):>6} {'' if build is None else build:>7}"
        note = row.get("note", "").replace("\n", " ")[:230] if row["state"] != "ok" else ""
        print(f"{row['state']:9} {numbers}  {row['key']}  {note}")
    print(
        "total:", ", ".join(f"{count} {state}" for state, count in Counter(row["state"] for row in rows).most_common())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression of the keys to do")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--level", type=int, default=1, help="optimization level; building takes most of the time")
    parser.add_argument("--target", default=get_target(None).version)
    parser.add_argument("--limit-s", type=float, default=420, help="begin no case after that")
    parser.add_argument("--case-s", type=float, default=120, help="longest time of one case")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--log", type=Path, help="where the processes' errors go")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    begun = time.monotonic()
    every = keys(asked.only)
    command = [sys.executable, str(WORKER), asked.target, str(asked.level)]
    rows = Pool(command, asked.workers, asked.limit_s, asked.case_s, asked.log, rows_file(asked.json)).rows(every)
    shown(rows)
    machine = {
        "tensorrt": installed_version(),
        "target": asked.target,
        "level": asked.level,
        "wall_s": round(time.monotonic() - begun),
        "command": " ".join(sys.argv),
    }
    print(json.dumps(machine))
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
