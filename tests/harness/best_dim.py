"""Sets of sizes as measured, and the most of one that a single ``Dim`` can say: by trying them all."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tests.guards.fix_exceptions import BEST

_STEP = re.compile(r"^(\d+)\.\.(\d+) step (\d+)$")
_RANGE = re.compile(r"^\[(\d+),(\d+)\]$")
_ONE = re.compile(r"^\{(\d+)\}$")
_RESIDUES = re.compile(r"^(\d+)\.\.(\d+) with v%(\d+) in \[([\d, ]+)\](?:\.\.\((\d+)\))?$")


def measured_values(text: str, count: int) -> list[int] | None:
    """The values behind a text of ``measured.json``; ``None`` where the text does not tell them all."""
    if found := _RANGE.match(text):
        values = list(range(int(found[1]), int(found[2]) + 1))
    elif found := _STEP.match(text):
        values = list(range(int(found[1]), int(found[2]) + 1, int(found[3])))
    elif found := _ONE.match(text):
        values = [int(found[1])]
    elif found := _RESIDUES.match(text):
        residues = [int(residue) for residue in found[4].split(",")]
        if found[5]:  # a list that was cut: the residues go on one by one, or the count below tells otherwise
            residues = list(range(residues[0], residues[0] + int(found[5])))
        values = [v for v in range(int(found[1]), int(found[2]) + 1) if v % int(found[3]) in residues]
    else:
        return None
    return values if len(values) == count else None


def best_progression(values: list[int], example: int) -> int:
    """How many of the values the largest ``low, low + step, ..., high`` with the example has, no other value in it."""
    inside = set(values)
    if example not in inside:
        return 0
    best = 1
    for step in range(1, values[-1] - values[0] + 1):
        if (values[-1] - values[0]) // step + 1 <= best:
            break
        low = high = example
        while low - step in inside:
            low -= step
        while high + step in inside:
            high += step
        best = max(best, (high - low) // step + 1)
    return best


@cache
def _measured() -> dict[str, dict[str, Any]]:
    path = Path(__file__).resolve().parent.parent / "guards" / "measured.json"
    return dict(json.loads(path.read_text()))


def best_kept(name: str) -> dict[str, int]:
    """For each dim of a live case that was measured, what the best single ``Dim`` with the example in it keeps."""
    found = {}
    for measured in _measured().get(name, {}).get("allowed", ()):
        values = measured_values(measured["values"], measured["count"])
        dim = measured["dims"][0]
        found[dim] = BEST[name][dim][0] if values is None else best_progression(values, measured["example"])
    return found


def allowed_counts(name: str) -> dict[str, int]:
    """For each dim of a live case that was measured alone, how many of the asked sizes the guards allow."""
    return {measured["dims"][0]: measured["count"] for measured in _measured().get(name, {}).get("allowed", ())}
