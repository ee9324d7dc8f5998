"""Cases in processes: the limit of a case is the case's alone, and what dies takes only its case with it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "gpu"))

from case_pool import Pool
from worker_ready import say_ready

from trtdiag.options import CompileOptions

CASE_S = 2.0
# Keys: "die" ends the process, "hang" does not answer.  The start takes longer than a case may.
WORKER = """
import json, sys, time
time.sleep(float(sys.argv[1]))
if len(sys.argv) > 2:
    sys.exit(3)
print(json.dumps({"ready": 0}), flush=True)
for line in sys.stdin:
    key = line.strip()
    print(json.dumps({"begin": key}), flush=True)
    if key == "die":
        sys.exit(7)
    if key == "hang":
        time.sleep(600)
    print(json.dumps({"key": key, "state": "ok"}), flush=True)
"""


def _states(keys: list[str], start_s: float = 0.0, *more: str, workers: int = 1) -> dict[str, str]:
    pool = Pool([sys.executable, "-c", WORKER, str(start_s), *more], workers, limit_s=60, case_s=CASE_S)
    return {row["key"]: row["state"] for row in pool.rows(keys)}


def test_the_start_of_a_process_is_no_part_of_its_first_case() -> None:
    assert _states(["a", "b"], 1.5 * CASE_S) == {"a": "ok", "b": "ok"}


@pytest.mark.parametrize("ends", ["die", pytest.param("hang", marks=pytest.mark.slow)])
def test_what_ends_takes_only_its_case(ends: str) -> None:
    keys = ["a", ends, "b", "c"]
    assert _states(keys, workers=2) == {key: "died" if key == ends else "ok" for key in keys}


def test_what_never_starts_leaves_its_cases_undone() -> None:
    assert _states(["a", "b"], 0.0, "broken") == {"a": "not run", "b": "not run"}


def test_a_process_is_ready_with_one_line() -> None:
    said = io.StringIO()
    say_ready(said, CompileOptions("8.6", "reference"))
    assert [list(json.loads(line)) for line in said.getvalue().splitlines()] == [["ready"]]
