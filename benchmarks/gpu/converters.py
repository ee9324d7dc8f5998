"""Every converter on TensorRT beside PyTorch: the calls that ``tests/convert`` checks, as engines on this GPU.

    python benchmarks/gpu/converters.py --json converters.json                about 1,500 engines in 5 minutes
    python benchmarks/gpu/converters.py --only 'avg_pool|topk' --most 99      every call of some ops
    python benchmarks/gpu/converters.py --backend reference --only topk       the script itself, without a GPU

First the tests run, and each distinct call that they check is kept (``--calls FILE`` keeps them for the next time).
Then each is converted for the target, static or with dynamic sizes as in the test, built, and run at all sizes that
the test compares.  ``worst`` is the greatest difference in parts of what is allowed, ``wrong`` counts integers, bools,
infinities and NaNs that are not the same.  First one call of each op and dtype runs, then a second, and so on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from case_pool import Pool, Row, rows_file
from torch.utils import _pytree as pytree

from trtdiag.targets import get_target, installed_version

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("converters_worker.py")
SHOWN = ("ok", "limit", "untraced", "differs", "refused", "error", "died", "not run")
Call = dict[str, Any]
_MOST_FILES = 8
"""In one process, so that one that dies takes no more with it."""


def collected(workers: int, only: str, log: Path | None) -> list[Call]:
    """The calls of all test files, some in each process: importing what they need takes longer than many of them."""
    with TemporaryDirectory() as folder:

        def calls_of(tests: list[Path]) -> list[Call]:
            kept = Path(folder) / f"{tests[0].stem}.pt"
            names = [str(test.relative_to(ROOT)) for test in tests]
            command = [sys.executable, str(WORKER), "collect", *names, str(kept)]
            with open(log or os.devnull, "ab") as out:
                subprocess.run(command, stdout=out, stderr=out, cwd=ROOT, check=False)
            return torch.load(kept, weights_only=False) if kept.is_file() else []

        # The largest first: they end last.
        tests = sorted((ROOT / "tests" / "convert").glob("test_*.py"), key=lambda test: -test.stat().st_size)
        with ThreadPoolExecutor(workers) as threads:
            groups = max(workers, -(-len(tests) // _MOST_FILES))
            shares = filter(None, (tests[start::groups] for start in range(groups)))
            found = [call for calls in threads.map(calls_of, shares) for call in calls]
    return [call for call in found if re.search(only, call["op"])]


def in_turn(calls: list[Call], most: int) -> list[int]:
    """Numbers of calls, the first of each op, dtype and kind of sizes before any second, ``most`` of each."""
    places: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for number, call in enumerate(calls):
        leaves = pytree.tree_leaves((call["args"], call["kwargs"]))
        dtype = next((str(leaf.dtype) for leaf in leaves if isinstance(leaf, torch.Tensor)), "")
        places[call["op"], dtype, bool(call["options"].get("dynamic"))].append(number)
    return [numbers[turn] for turn in range(most) for numbers in places.values() if turn < len(numbers)]


def shown(rows: list[Row]) -> None:
    """A table by op, then everything that is not as it should be."""
    by_op: dict[str, Counter[str]] = defaultdict(Counter)
    worst: dict[str, float] = defaultdict(float)
    for row in rows:
        by_op[row["op"]][row["state"]] += 1
        worst[row["op"]] = max(worst[row["op"]], row.get("worst") or 0.0)
    print(f"{'op':58} {'worst':>6} " + " ".join(f"{state:>8}" for state in SHOWN))
    for op, counts in sorted(by_op.items()):
        print(f"{op:58} {worst[op]:6.2f} " + " ".join(f"{counts[state] or '':>8}" for state in SHOWN))
    for row in sorted(rows, key=lambda row: (row["state"], row["op"])):
        if row["state"] in ("differs", "refused", "error", "died"):
            note = row.get("note", "").replace("\n", " ")[:400]
            print(
                f"{row['state']:8} {row.get('worst') or 0:8.2f} {row.get('wrong') or 0:6}  {row['call'][:200]}  {note}"
            )
    every, ops = Counter(row["state"] for row in rows), len(by_op)
    bad = sum(any(counts[state] for state in SHOWN[3:7]) for counts in by_op.values())
    words = ", ".join(f"{count} {state}" for state, count in every.most_common())
    print(f"total: {words}; {ops} ops, {bad} with something wrong, {sum(not c['ok'] for c in by_op.values())} never ok")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--target", default=get_target(None).version)
    parser.add_argument("--only", default="", help="regular expression of the ops")
    parser.add_argument("--most", type=int, default=2, help="calls of each op, dtype and kind of sizes")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--level", type=int, default=0, help="optimization level; building takes most of the time")
    parser.add_argument("--limit-s", type=float, default=300, help="begin no engine after that, collecting apart")
    parser.add_argument("--case-s", type=float, default=60, help="longest time of one call")
    parser.add_argument("--calls", type=Path, help="where the calls of the tests are, or are kept")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--log", type=Path, help="where the processes' errors go")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begun = time.monotonic()
    if asked.calls is not None and asked.calls.is_file():
        calls = [c for c in torch.load(asked.calls, weights_only=False) if re.search(asked.only, c["op"])]
    else:
        calls = collected(asked.workers, asked.only if asked.calls is None else "", asked.log)
        if asked.calls is not None:
            torch.save(calls, asked.calls)
            calls = [call for call in calls if re.search(asked.only, call["op"])]
    collecting_s = time.monotonic() - begun
    numbers = in_turn(calls, asked.most)
    print(f"{len(calls)} calls of {len({c['op'] for c in calls})} ops in {collecting_s:.0f} s; {len(numbers)} are run")
    with TemporaryDirectory() as folder:
        held = Path(folder) / "calls.pt"
        torch.save(calls, held)
        command = [sys.executable, str(WORKER), "run", asked.backend, asked.target, str(asked.level), str(held)]
        pool = Pool(command, asked.workers, asked.limit_s, asked.case_s, asked.log, rows_file(asked.json))
        rows = pool.rows([str(number) for number in numbers])
    for row in rows:  # what died has not said what it was
        call = calls[int(row["key"])]
        row.setdefault("op", call["op"])
        row.setdefault("call", call["text"][:300])
    shown(rows)
    machine = {
        "tensorrt": installed_version(),
        "target": asked.target,
        "backend": asked.backend,
        "level": asked.level,
        "collecting_s": round(collecting_s),
        "wall_s": round(time.monotonic() - begun),
        "command": " ".join(sys.argv),
    }
    print(json.dumps(machine))
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
