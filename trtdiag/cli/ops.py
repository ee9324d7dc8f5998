"""``trtdiag ops``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trtdiag.cli.option_groups import debug_option
from trtdiag.cli.output_paths import check_reports, report_places
from trtdiag.cli.report_files import json_file, printed_json_option, write_json
from trtdiag.cli.value_checks import CheckedCommand

if TYPE_CHECKING:
    from trtdiag.analysis.core_ops import Coverage


@click.command(cls=CheckedCommand)
@click.option("--target", metavar="VERSION", help="TensorRT version to answer for, such as 10.16.")
@printed_json_option
@debug_option
def ops(target: str | None, json_path: str | None) -> None:
    """List the ops that have a converter, and the core ATen ops that stay with PyTorch, with the reason.

    A converter may still refuse a call: `trtdiag analyze` says which and why.
    """
    files = json_file(json_path)
    check_reports([], report_places(files))
    from trtdiag.analysis.core_ops import coverage  # the converters need torch, which takes seconds
    from trtdiag.targets.versions import get_target

    found = coverage(get_target(target))
    if json_path is not None:
        write_json(files, json.dumps(_plain(found), indent=2) + "\n", "list")
    else:
        _print(found, Console(soft_wrap=False))


def _plain(found: Coverage) -> dict[str, object]:
    return {
        "schema": "trtdiag-ops/1",
        "target": found.target.version,
        "dtypes": sorted(found.target.dtypes),
        "layers_written_otherwise": list(found.written_otherwise),
        "converters": [
            {"op": c.op, "schema": c.schema, "family": c.family, "notes": c.notes} for c in found.converters
        ],
        "core_decomposed": list(found.decomposed),
        "core_sizes": list(found.sizes),
        "core_missing": [{"op": each.op, "reason": each.why, "meaning": each.meaning} for each in found.missing],
        "counts": _counts(found),
    }


def _counts(found: Coverage) -> dict[str, int]:
    with_converter = found.core - len(found.decomposed) - len(found.sizes) - len(found.missing)
    return {
        "converters": len(found.converters),
        "core": found.core,
        "core_with_converter": with_converter,
        "core_decomposed": len(found.decomposed),
        "core_sizes": len(found.sizes),
        "core_missing": len(found.missing),
    }


def _print(found: Coverage, console: Console) -> None:
    table = Table("op", "family", "what it does not take, or does in its own way", box=None, pad_edge=False)
    for each in found.converters:
        table.add_row(Text(each.op), Text(each.family), Text(each.notes))
    console.print(table)
    console.print()
    missing = Table("core op that stays with PyTorch", "reason", "", box=None, pad_edge=False)
    for core in found.missing:
        missing.add_row(Text(core.op), Text(core.why, style="yellow"), Text(core.meaning))
    console.print(missing)
    console.print()
    counts = _counts(found)
    told = [
        f"{counts['converters']} ops have a converter.",
        f"Of {counts['core']} core ATen ops {counts['core_with_converter']} have a converter, "
        f"{counts['core_decomposed']} are taken apart, {counts['core_sizes']} are sizes and computed where they "
        f"are needed, {counts['core_missing']} stay with PyTorch.",
        f"{found.target.name} holds {', '.join(sorted(found.target.dtypes))}.",
    ]
    if "int64" not in found.target.dtypes:
        told.append("int64 becomes int32 where the values are shown to fit; other ops on int64 stay in PyTorch.")
    if found.written_otherwise:
        told.append(
            f"Layers that {found.target.name} lacks, written with others: {', '.join(found.written_otherwise)}."
        )
    for sentence in told:
        console.print(Text(sentence))
