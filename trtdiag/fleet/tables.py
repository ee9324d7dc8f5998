"""The rows of a sweep as a flat table: CSV, and Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trtdiag.arguments import wrong
from trtdiag.errors import PlatformError
from trtdiag.files.atomic_write import write_whole
from trtdiag.fleet.facts import Measured
from trtdiag.fleet.rows import Row
from trtdiag.report.save import telling, write_atomically
from trtdiag.wording import first_line, utf8

_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("program", "source", "target", "precision", "gpu", "gpu_type", "state", "text"), str),
    **dict.fromkeys(("errors", "warnings", "notes"), int),
    "rules": str,
    **dict.fromkeys(("engines", "ops", "ops_in_engines", "dims", "dynamic_dims", "wrong_dims"), int),
    "declare": str,
    **dict.fromkeys(("program_bytes", "weight_bytes", "live_bytes"), int),
    **dict.fromkeys(("fix_dims", "fixed_file", "backend"), str),
    **dict.fromkeys(("built_engines", "engine_bytes", "file_bytes"), int),
    **dict.fromkeys(("compared", "failure", "report"), str),
    **dict.fromkeys(("seconds", "cpu_s", "peak_mib", "call_ms"), float),
}
"""The columns in their order; the last four are measured, and differ from run to run."""


def table_rows(rows: Sequence[Row], measured: Sequence[Mapping[str, Measured]]) -> Iterator[dict[str, Any]]:
    """Each row as plain values by column; ``None`` where there is none."""
    for row, times in zip(rows, measured, strict=True):
        yield {name: value for name, value in _values(row, times).items() if name in _KINDS}


def _values(row: Row, times: Mapping[str, Measured]) -> dict[str, Any]:
    found, fixed, built = row.diagnosis, row.fixed, row.built
    counts = Counter(hit.severity for hit in (() if found is None else found.findings))
    rules = dict.fromkeys(hit.rule for hit in (() if found is None else found.findings))
    about: dict[str, Any] = dict.fromkeys(_KINDS)
    about |= {} if found is None else vars(found)
    about |= vars(row)
    about |= {"errors": counts["error"], "warnings": counts["warning"], "notes": counts["info"]}
    about |= {"rules": " ".join(rules), "report": next(iter(row.reports.values()), None)}
    about["failure"] = None if row.failure is None else f"{row.failure.message}: {row.failure.because}"
    if found is None:
        about |= dict.fromkeys(("errors", "warnings", "notes"))
    if fixed is not None:
        key = row.keys["fix-dims"]
        about |= {"fix_dims": fixed.outcome, "fixed_file": f"steps/{key}/{fixed.file}" if fixed.file else None}
    if built is not None:
        about |= {"backend": built.backend, "built_engines": built.engines, "engine_bytes": built.engine_bytes}
        about["file_bytes"] = built.file_bytes
    every = list(times.values())
    if every:
        about |= {"seconds": sum(each.seconds for each in every), "cpu_s": sum(each.cpu_s for each in every)}
        about["peak_mib"] = max(each.peak_mib for each in every)
        about["call_ms"] = next((each.ms["trtdiag"] for each in every if "trtdiag" in each.ms), None)
    # Neither format takes a name of a file that is no UTF-8.
    return {name: utf8(about[name]) if isinstance(about[name], str) else about[name] for name in _KINDS}


def csv_text(rows: Sequence[Row], measured: Sequence[Mapping[str, Measured]]) -> str:
    """The table as CSV with a head."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(_KINDS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table_rows(rows, measured))
    return out.getvalue()


def require_parquet() -> Any:
    """The modules that write Parquet.

    Raises:
        PlatformError: ``pyarrow-not-installed``.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise PlatformError(
            "Parquet is written with pyarrow, which is not installed",
            because=first_line(error),
            fix="pip install pyarrow, or take CSV, which has the same columns",
            reference="pyarrow-not-installed",
        ) from error
    return pyarrow


def parquet_bytes(rows: Sequence[Row], measured: Sequence[Mapping[str, Measured]]) -> bytes:
    """The table as Parquet.

    Raises:
        PlatformError: ``pyarrow-not-installed``.
    """
    pyarrow = require_parquet()
    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in _KINDS.items()])
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([*table_rows(rows, measured)], schema=schema), out)
    return out.getvalue()


def save_table(path: Path, rows: Sequence[Row], measured: Sequence[Mapping[str, Measured]]) -> None:
    """Write the table in the format of the suffix.

    Raises:
        UserError: ``report-not-writable``; ``wrong-argument`` for another suffix.
        PlatformError: ``pyarrow-not-installed``.
    """
    if path.suffix == ".parquet":
        content = parquet_bytes(rows, measured)
        with telling(path, "table"):
            write_whole(path, (content,))
    elif path.suffix == ".csv":
        write_atomically(path, csv_text(rows, measured), what="table")
    else:
        raise wrong("path", str(path), "a path that ends with .csv or .parquet", "wrong-argument")
