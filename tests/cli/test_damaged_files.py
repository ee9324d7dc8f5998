"""Real files of every kind that is read, damaged at random: each is read, or refused by one documented error.

`.pt2` and `.ep` files and engine caches have tests of their own.  The seeds are fixed; another beginning comes with
``TRTDIAG_FUZZ_SEED``.
"""

from __future__ import annotations

import io
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.harness.packed_pages import report_in
from tests.mutations import changed, damaged
from tests.random_cases import cases
from trtdiag.analysis.registry import rules
from trtdiag.cli.config import read_config
from trtdiag.cli.engine_options import ENGINE_OPTIONS, chosen_engine_options
from trtdiag.errors import UserError
from trtdiag.fixdims.error_text.from_text import fix_text
from trtdiag.fixdims.sources import read_text
from trtdiag.options import PartitionOptions
from trtdiag.report.fix_json import json_fix
from trtdiag.report.saved import SavedReport, read_report
from trtdiag.report.terminal import page_summary

ROOT = Path(__file__).resolve().parents[2]
FIRST_SEED = int(os.environ.get("TRTDIAG_FUZZ_SEED", "1"))
QUICK, MANY = cases(100), 5000
TEXTS = ROOT / "tests" / "guards" / "texts.jsonl"
CONFIG = b"""[project]
name = "net"

[tool.trtdiag]
target = "11.4"
select = ["GRD", "SYM201"]
fail-on = "warning"
min-segment-ops = 3
require-full = false
precision = "fp16"
keep-fp32 = ["aten.softmax", "head"]
engine-cache = "~/cache"
timing-cache = "build/timings"
build-jobs = 2

[tool.other]
deep = { a = [1, { b = 2.5e3 }], when = 2024-11-22T19:00:00Z }
"""
REFUSALS = {
    "report": {"report-not-readable", "report-without-page"},
    "compare": {"report-not-readable", "report-without-page"},
    "config": {"config-unreadable", "config-unknown-key", "config-wrong-value"},
    "log": {"source-not-readable", "no-conditions-in-text"},
}


@cache
def reports() -> tuple[Any, ...]:
    """The JSON reports in the pages of the examples, with their pages: findings and guards, engines and layers."""
    found = []
    for page in sorted((ROOT / "examples" / "reports").glob("*.html")):
        found.append(report_in(page.read_text(encoding="utf-8")))
    return tuple(found)


@cache
def messages() -> tuple[str, ...]:
    return tuple(json.loads(line)["message"] for line in TEXTS.read_text(encoding="utf-8").splitlines())


def a_report(luck: random.Random) -> bytes:
    body = luck.choice(reports())
    if luck.random() < 0.4:
        return damaged(json.dumps(body, indent=1).encode(), luck)
    if luck.random() < 0.5:  # what a record is made of is the smaller part of a report
        body = {**body, "page": None}
    return changed(body, luck)


def a_log(luck: random.Random) -> bytes:
    return damaged(luck.choice(messages()).encode("utf-8", "surrogatepass"), luck)


def _written(report: SavedReport, formats: Iterable[str], folder: Path) -> None:
    for name in formats:
        report.rendering.text(name).encode("utf-8")
    shown = io.StringIO()
    Console(file=shown, width=90).print(page_summary(report.rendering.view))
    assert not set(shown.getvalue()) & {"\x1b", "\x00", "\u202e"}
    again = folder / "again.json"
    again.write_text(report.rendering.text("json"), encoding="utf-8")
    assert read_report(again).body == report.body


def read_saved(place: Path, _luck: random.Random) -> None:
    report = read_report(place, rules())
    assert report.verdict is not None
    _written(report, ("sarif", "markdown"), place.parent)


def read_and_compare(place: Path, luck: random.Random) -> None:
    other = read_report(place)
    earlier, later = (other, good()) if luck.random() < 0.5 else (good(), other)
    _written(later.compare(earlier), ("markdown",), place.parent)


@cache
def good() -> SavedReport:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "good.json"
        place.write_text(json.dumps(reports()[0]))
        return read_report(place)


def read_settings(place: Path, _luck: random.Random) -> None:
    given = {name: () if how.get("multiple") else None for name, how in ENGINE_OPTIONS.items()}
    assert isinstance(chosen_engine_options(read_config(place.parent), given)["partition"], PartitionOptions)


def read_log(place: Path, _luck: random.Random) -> None:
    fix = fix_text(read_text(place), limit_s=0.5)
    assert json.loads(json_fix(fix))["schema"] == "trtdiag-fix/1"


TARGETS: dict[str, tuple[str, Callable[[random.Random], bytes], Callable[[Path, random.Random], None]]] = {
    "report": ("saved.json", a_report, read_saved),
    "compare": ("saved.json", a_report, read_and_compare),
    "config": ("pyproject.toml", lambda luck: damaged(CONFIG, luck), read_settings),
    "log": ("export.log", a_log, read_log),
}


def outcomes(target: str, seeds: Iterable[int], folder: Path) -> dict[str, int]:
    """How often each outcome came; anything but a documented error goes on up, with its seed."""
    name, make, read = TARGETS[target]
    place = folder / name
    found: dict[str, int] = {}
    for seed in seeds:
        luck = random.Random(seed)
        place.write_bytes(make(luck))
        outcome, told = "read", "as it is"
        try:
            read(place, luck)
        except UserError as error:
            outcome, told = error.reference, str(error)
        except Exception as error:
            raise AssertionError(f"the {target} of seed {seed} is not refused, but {error!r}") from error
        assert 0 < len(told) < 4000, (seed, told[:400])
        assert outcome in {"read", *REFUSALS[target]}, (seed, told)
        found[outcome] = found.get(outcome, 0) + 1
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_files_are_read_or_refused(target: str, tmp_path: Path) -> None:
    found = outcomes(target, range(FIRST_SEED, FIRST_SEED + QUICK), tmp_path)
    # The damage must get behind the first check.  The few cases of the quick run may all be refused: what is damaged
    # where follows from the checked-in reports, which are drawn again now and then.
    assert found.get("read", 0) >= QUICK // 25, found
    assert len(found) > 1, found


def test_a_range_with_the_keys_of_a_profile_is_compared(tmp_path: Path) -> None:
    body = dict(reports()[0])
    body["symbols"] = [{**each, "range": {"opt": 128, **each["range"]}} for each in body["symbols"]]
    place = tmp_path / "saved.json"
    place.write_text(json.dumps(body), encoding="utf-8")
    found = good().compare(read_report(place)).body["comparison"]
    assert body["symbols"]
    assert found["symbols"] == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_damaged_files_are_read_or_refused(target: str, tmp_path: Path) -> None:
    assert sum(outcomes(target, range(10_000 + FIRST_SEED, 10_000 + FIRST_SEED + MANY), tmp_path).values()) == MANY
