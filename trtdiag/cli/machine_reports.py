"""``--json`` and ``--sarif``: the report for machines, beside what a person reads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtdiag.report.save import write_atomically

if TYPE_CHECKING:
    from trtdiag.report.report import Report

json_option = click.option(
    "--json", "json_path", metavar="PATH", help="Also write the report as JSON; - for standard output."
)
sarif_option = click.option(
    "--sarif", "sarif_path", metavar="PATH", help="Also write SARIF 2.1.0; - for standard output."
)


def write_machine_reports(report: Report, json_path: str | None, sarif_path: str | None = None) -> list[str]:
    """Write what was asked for; gives the places, for the summary.

    Raises:
        UserError: A place cannot be written.
    """
    _write(report.to_json, json_path)
    _write(report.to_sarif, sarif_path)
    return [path for path in (json_path, sarif_path) if path is not None]


def _write(make: Callable[[], str], path: str | None) -> None:
    if path == "-":
        sys.stdout.write(make())
    elif path is not None:
        write_atomically(Path(path), make())
