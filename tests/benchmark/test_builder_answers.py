"""The builder's answers beside ours: rows outlive the run that got them, and what ends a process counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "gpu"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from builder_answers import agreeing, answered, kept_rows, key_of, summary

GPUS = ("sm75", "sm89")
# Answers with how often it was asked a key, "die" ends it.
WORKER = """
import json, sys
from pathlib import Path
print(json.dumps({"ready": 0}), flush=True)
asked = Path(sys.argv[1])
for line in sys.stdin:
    key = line.strip()
    with open(asked, "a") as file:
        file.write(key + "\\n")
    print(json.dumps({"begin": key}), flush=True)
    if key == "die":
        sys.exit(7)
    print(json.dumps({"key": key, "state": "agree", "time": asked.read_text().split().count(key)}), flush=True)
"""


def test_rows_are_kept_between_runs(tmp_path: Path) -> None:
    kept, command = tmp_path / "rows.jsonl", [sys.executable, "-c", WORKER, str(tmp_path / "asked")]
    first = answered(command, ["a", "die", "b"], (), kept, 60, None)
    assert {key: row["state"] for key, row in first.items()} == {"a": "agree", "die": "died", "b": "agree"}
    with open(kept, "a", encoding="utf-8") as file:
        file.write('{"key": "c", "sta')  # the run was ended while it wrote
    again = answered(command, ["a", "die", "b", "c"], ["b"], kept, 60, None)
    assert {key: row.get("time") for key, row in again.items()} == {"a": 1, "die": None, "b": 2, "c": 1}
    assert kept_rows(kept) == again


def test_nothing_runs_where_all_is_known(tmp_path: Path) -> None:
    kept = tmp_path / "rows.jsonl"
    kept.write_text(json.dumps({"key": "a", "state": "agree"}) + "\n", encoding="utf-8")
    assert answered(["/no/such/program"], ["a"], (), kept, 60, None)["a"]["state"] == "agree"


@pytest.mark.parametrize(
    ("said", "built", "same"),
    [(GPUS, GPUS, 2), (GPUS, ["sm89"], 1), ([], [], 2), ([], GPUS, 0), (["sm75"], ["sm89"], 0)],
)
def test_pairs_that_agree(said: list[str], built: list[str], same: int) -> None:
    assert agreeing([{"state": "", "said": said, "built": built}], GPUS) == (same, 2)


def test_what_ends_the_process_does_not_agree_and_what_has_no_network_does_not_count() -> None:
    rows = [{"state": "agree", "said": [], "built": []}, {"state": "died"}, {"state": "no network", "static": "why"}]
    found = summary(rows, GPUS)
    assert (found["agree"], found["pairs"], found["networks"], found["converted_and_refused"]) == (2, 4, 1, 1)


def test_a_key_is_one_word_and_the_same_in_every_run() -> None:
    assert key_of("aten.add.Tensor((1, 2), {})") == "dd87c4ce5ed79770"
