"""The results of a sweep as JSON: ``trtdiag-sweep/1``, the same bytes for one worker and for many."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtdiag import __version__
from trtdiag.errors import UserError
from trtdiag.files.bounded_read import read_whole, reason
from trtdiag.fleet.comparison import SweepComparison
from trtdiag.fleet.digests import digest_of
from trtdiag.fleet.facts import FORMS, Measured
from trtdiag.fleet.rows import Row
from trtdiag.fleet.totals import Totals
from trtdiag.report.schema_check import fitted, read_schema
from trtdiag.report.strict_json import JsonFault, parse_json

SCHEMA = "trtdiag-sweep/1"
SCHEMA_PATH = Path(__file__).resolve().parents[1] / "report" / "schema" / "sweep-1.schema.json"
RESULTS, SECONDS, EARLIER, PAGE = "results.json", "seconds.json", "earlier.json", "index.html"
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class SavedSweep:
    """Results that were read: what tells them from others, and their rows."""

    id: str
    rows: tuple[Row, ...]


def results_json(rows: Sequence[Row], totals: Totals, comparison: SweepComparison | None) -> dict[str, Any]:
    """Everything but what differs from run to run."""
    listed = [FORMS.written(Row, row) for row in rows]
    return {
        "schema": SCHEMA,
        "tool": {"name": "trtdiag", "version": __version__},
        "id": id_of(rows),
        "rows": listed,
        "totals": {
            "programs": totals.programs,
            "rows": totals.rows,
            "states": totals.states,
            "rules": [vars(each) for each in totals.rules],
            "ops": [vars(each) for each in totals.ops],
        },
        "comparison": None if comparison is None else FORMS.written(SweepComparison, comparison),
    }


def id_of(rows: Sequence[Row]) -> str:
    """What tells these results from others."""
    return digest_of([FORMS.written(Row, row) for row in rows])[:32]


def seconds_json(measured: Sequence[tuple[Row, Mapping[str, Measured]]]) -> dict[str, Any]:
    """What was measured, row by row."""
    rows = [
        {"row": row.label, "steps": {name: FORMS.written(Measured, each) for name, each in steps.items()}}
        for row, steps in measured
    ]
    return {"schema": "trtdiag-sweep-seconds/1", "rows": rows}


def read_results(path: str | os.PathLike[str]) -> SavedSweep:
    """Read the results of a sweep: its folder, or its ``results.json``.

    Raises:
        UserError: ``sweep-not-readable``.
    """
    place = Path(path)
    place = place / RESULTS if os.path.isdir(place) else place
    try:
        found: Any = fitted(parse_json(read_whole(place, _MOST_BYTES)), read_schema(SCHEMA_PATH))
    except OSError as error:
        raise _unreadable(place, reason(error)) from error
    except JsonFault as fault:
        raise _unreadable(place, str(fault)) from fault
    return SavedSweep(found["id"], tuple(FORMS.read(Row, row) for row in found["rows"]))


def _unreadable(place: Path, why: str) -> UserError:
    return UserError(
        f"cannot read the sweep {place}",
        because=why,
        fix=f"give the folder of a sweep, or its {RESULTS}",
        reference="sweep-not-readable",
    )


def text_of(body: Mapping[str, Any]) -> str:
    """A body as its file has it."""
    return json.dumps(body, indent=1, ensure_ascii=True) + "\n"
