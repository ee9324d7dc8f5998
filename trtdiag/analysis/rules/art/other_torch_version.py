"""ART801."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, rule
from trtdiag.frontend.program import Program

_FIRST_WITH_GUARDS = (2, 9)


@rule("ART801", "other-torch-version", Severity.WARNING)
def other_torch_version(program: Program) -> Iterator[Hit]:
    """The program was exported by another version of torch, or has another schema.

    Why:
        A saved program names ops and their arguments as the exporting torch knew them, and carries only
        what that version wrote.  Files of torch 2.8 and before hold no guards: the ranges look wider than
        they are, and a size that the model cannot do is found at run time only.  A file of a newer torch
        than the running one may hold ops or fields that are read as if they were not there.

        Warning in these two cases; INFO when an older torch, 2.9 or later, wrote the file.

    Example:
        exported by torch 2.8.0, read by torch 2.13.0       # no guards in the file

    Fix safety:
        Safe: exporting again with the running torch gives a program of the same model.

    Source:
        archive/version and models/model.json of the file (torch_version, schema_version); guards_code is
        there from torch 2.9 on.
    """
    versions = program.versions
    exporter, running = _release(versions.exporting_torch), _release(versions.running_torch)
    other_schema = versions.schema is not None and versions.schema != versions.running_schema
    if exporter is None or running is None or (exporter == running and not other_schema):
        return
    severity = Severity.WARNING
    if exporter > running or _schema(versions.schema) > _schema(versions.running_schema):
        why = "newer ops or fields may not be understood"
    elif exporter < _FIRST_WITH_GUARDS:
        why = "torch before 2.9 saves no guards, so ranges could not be checked against them"
    else:
        severity, why = Severity.INFO, "ops may have other defaults or decompositions"
    facts = [
        Evidence(f"exported by torch {versions.exporting_torch}", f"{program.label}"),
        Evidence(f"read by torch {versions.running_torch}", "torch.__version__"),
    ]
    if versions.schema:
        facts.append(Evidence(f"schema {versions.schema}, running {versions.running_schema}", program.label))
    yield Hit(
        f"exported by torch {versions.exporting_torch}, read by {versions.running_torch}: {why}",
        tuple(facts),
        fix=Fix(f"export again with torch {versions.running_torch.partition('+')[0]}", Applicability.SAFE),
        cause="torch version",
        severity=severity,
    )


def _release(version: str | None) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", version or "")
    return (int(match[1]), int(match[2])) if match else None


def _schema(version: str | None) -> tuple[int, int]:
    return _release(version) or (0, 0)
