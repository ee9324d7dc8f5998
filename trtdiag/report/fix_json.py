"""The answer of ``fix-dims`` as JSON: schema ``trtdiag-fix/1``, keys always in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from trtdiag import __version__
from trtdiag.dims.plan import Plan
from trtdiag.fixdims.fix import DataCheck, Fix, Reason
from trtdiag.fixdims.programs import FixedProgram, Several
from trtdiag.fixdims.several_programs.coordinates import Coordinate
from trtdiag.report.fix_words import all_notes, fix_verdict
from trtdiag.report.schema_check import read_schema
from trtdiag.report.schema_writer import Form, written
from trtdiag.report.shown_paths import with_short_paths
from trtdiag.report.strict_json import Json, json_text

FIX_SCHEMA = "trtdiag-fix/1"
FIX_SCHEMA_PATH = Path(__file__).parent / "schema" / "fix-1.schema.json"

_FORMS: Mapping[type, Form] = {
    Fix: lambda fix: {
        "schema": FIX_SCHEMA,
        "tool": ("trtdiag", __version__),
        "verdict": fix_verdict(fix).text,
        "notes": all_notes(fix),
        "versions": {"running_torch": str(torch.__version__)},
    },
    Several: lambda several: {"sizes": several.coordinates},
    Coordinate: lambda each: dict(zip(("scale", "offset"), each.lines[each.site], strict=True)),
    FixedProgram: lambda program: {"takes": program.takes_text()},
    Plan: lambda plan: {
        "dims": plan.defs,
        "leaves": [{"site": site, **vars(leaf)} for site, leaf in plan.leaves.items()],
        "example_sizes": list(plan.sizes.items()),
    },
    Reason: lambda reason: {"source": reason.stack.best},
    DataCheck: lambda check: {"source": check.where.best},
}
"""By type of fact, the keys of the answer that are not its attributes."""


def json_fix(fix: Fix) -> str:
    """The answer as JSON text: valid UTF-8 whatever the names."""
    return json_text(fix_json(fix)) + "\n"


def fix_json(fix: Fix) -> dict[str, Json]:
    """Everything but the tensors and the program, as plain lists and dicts."""
    return with_short_paths(written(fix, read_schema(FIX_SCHEMA_PATH), _FORMS))  # type: ignore[no-any-return]
