"""How TensorRT 8.6 is best held to the types of a network with float16: what builds, agrees, and is fast.

    python benchmarks/gpu/pinning.py --json pinning.json --limit-s 300

Each network is built under each policy (``POLICIES`` in ``pinning_worker.py``): which layers are pinned, whether the
builder must obey or only prefer, and how much of the network is float32.  ``ms`` is measured at the greatest sizes,
one engine after the other when all are built.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from case_pool import Pool, Row, rows_file
from pinned_networks import LARGE, LAYERS, SMALL
from pinning_worker import POLICIES

from trtdiag.engine.backend import get_backend
from trtdiag.targets import get_target, installed_version

WORKER = Path(__file__).with_name("pinning_worker.py")
_CALLS, _ROUNDS = 20, 9


_MATTER = ("obey", "prefer", "free", "islands", "islands_prefer", "calm", "calm_prefer", "calm_free", "half")
_MATTER += ("half_free", "half_prefer", "no_outputs", "product")
_TELLING = ("norm_linear", "attention", "causal", "gelu")


def keys(only: str) -> list[str]:
    """What tells most first: every policy on a small transformer, those that matter on layers of real size."""
    every = [f"transformer:{policy}" for policy in POLICIES]
    every += [f"{name}:{policy}" for policy in _MATTER for name in ("encoder", "decoder")]
    every += [f"{name}:{policy}" for policy in POLICIES for name in _TELLING]
    every += [f"{name}:obey" for name in SMALL if name not in _TELLING]
    every += [f"{name}:{policy}" for policy in ("obey", "prefer", "free", "halves", "product") for name in LAYERS]
    return [key for key in every if re.search(only, key)]


def timed(path: Path, backend: Any) -> float | None:
    """Milliseconds of one call: the median of rounds of calls one after the other; ``None`` without a GPU."""
    blob, manifest, given = torch.load(path, weights_only=False)
    runner = backend.load(blob, manifest)
    inputs = [t if port.is_size else t.to(backend.device) for t, port in zip(given, manifest.inputs, strict=True)]
    if backend.device != "cuda":
        runner(inputs)
        return None
    rounds = []
    for _ in range(_ROUNDS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(_CALLS):
            runner(inputs)
        end.record()
        end.synchronize()
        rounds.append(begin.elapsed_time(end) / _CALLS)
    return statistics.median(rounds[1:])


def shown(rows: list[Row]) -> None:
    """For each network its policies, the fastest that agrees first; then why others were refused."""
    for name in (*LARGE, *SMALL, *LAYERS):
        own = [row for row in rows if row["key"].startswith(f"{name}:")]
        if own:
            print(f"\n{name:34} {'state':8} {'ms':>7} {'worst':>8} {'wrong':>5} {'casts':>5} {'build s':>7}")
        for row in sorted(own, key=lambda row: (row["state"] != "ok", row.get("ms") or 1e9, row["key"])):
            ms, worst = row.get("ms"), row.get("worst")
            shown_ms, shown_worst = "" if ms is None else f"{ms:.4f}", "" if worst is None else f"{worst:.1e}"
            numbers = f"{shown_ms:>7} {shown_worst:>8} {row.get('wrong', ''):>5} {row.get('casts', ''):>5}"
            print(f"  {row['key'].split(':')[1]:32} {row['state']:8} {numbers} {row.get('build_s') or 0:7.1f}")
    for row in rows:
        if row["state"] not in ("ok", "not run"):
            print(f"\n{row['key']} {row['state']}: {row.get('note', '')[:500]}")
    for row in rows:
        if row.get("said"):
            print(f"\n{row['key']} said: {' | '.join(row['said'])[:900]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression of NETWORK:POLICY")
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--target", default=get_target(None).version)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--level", type=int, default=3, help="optimization level")
    parser.add_argument("--limit-s", type=float, default=300, help="begin no build after that")
    parser.add_argument("--case-s", type=float, default=150, help="longest time of one build")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--log", type=Path, help="where the processes' errors go")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begun = time.monotonic()
    with TemporaryDirectory() as folder:
        command = [sys.executable, str(WORKER), asked.target, asked.backend, str(asked.level), folder]
        rows = Pool(command, asked.workers, asked.limit_s, asked.case_s, asked.log, rows_file(asked.json)).rows(
            keys(asked.only)
        )
        backend = get_backend(asked.backend)
        for row in rows:
            path = Path(folder) / row["key"].replace(":", ".")
            if path.is_file():
                row["ms"] = timed(path, backend)
    shown(rows)
    machine = {
        "tensorrt": installed_version(),
        "level": asked.level,
        "wall_s": round(time.monotonic() - begun),
        "command": " ".join(sys.argv),
    }
    print(json.dumps(machine))
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
