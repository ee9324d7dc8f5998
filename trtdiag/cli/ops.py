"""``trtdiag ops``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trtdiag.cli.option_groups import debug_option
from trtdiag.cli.output_paths import check_reports, report_places
from trtdiag.cli.report_files import json_file, printed_json_option, write_json
from trtdiag.cli.value_checks import CheckedCommand
from trtdiag.converter_packages import failures
from trtdiag.errors import UserError
from trtdiag.grouping import grouped
from trtdiag.option_warnings import warn_of
from trtdiag.wording import near

if TYPE_CHECKING:
    from trtdiag.analysis.core_ops import Coverage


@click.command(cls=CheckedCommand)
@click.argument("words", nargs=-1)
@click.option("--target", metavar="VERSION", help="TensorRT version to answer for, such as 10.16.")
@printed_json_option
@debug_option
def ops(words: tuple[str, ...], target: str | None, json_path: str | None) -> None:
    """List the ops that have a converter, and the core ATen ops that stay with PyTorch, with the reason.

    With WORDS those alone that have one of them in their name.  A converter may still refuse a call:
    `trtdiag analyze` says which and why.  Packages with converters of their own (entry point group
    trtdiag.converters) are named.

    \b
    Examples:
      trtdiag ops softmax
      trtdiag ops conv pool --target 8.6
      trtdiag ops --json ops.json
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    files = json_file(json_path)
    check_reports([], report_places(files))
    from trtdiag.analysis.core_ops import coverage  # the converters need torch, which takes seconds
    from trtdiag.targets.versions import get_target

    found = coverage(get_target(target))
    warn_of(failures())
    if words:
        found = _named(found, words)
    if json_path is not None:
        write_json(files, json.dumps(_plain(found), indent=2) + "\n", "list")
    else:
        _print(found, Console(soft_wrap=False), every=not words)


def _named(found: Coverage, words: Sequence[str]) -> Coverage:
    """What is said of the ops that have one of the words in their name.

    Raises:
        UserError: ``no-such-op``: none has.
    """

    def named(op: str) -> bool:
        return any(word.lower() in op.lower() for word in words)

    kept = replace(
        found,
        converters=tuple(each for each in found.converters if named(each.op)),
        decomposed=tuple(filter(named, found.decomposed)),
        sizes=tuple(filter(named, found.sizes)),
        missing=tuple(each for each in found.missing if named(each.op)),
        as_pairs=tuple(filter(named, found.as_pairs)),
        on_complex={op: becomes for op, becomes in found.on_complex.items() if named(f"aten.{op}")},
    )
    if not (kept.converters or kept.decomposed or kept.sizes or kept.missing or kept.on_complex):
        known = {op.split(".")[1].lstrip("_"): None for op in (*(c.op for c in found.converters), *found.decomposed)}
        alike = dict.fromkeys(name for word in words for name in near(word, known))
        raise UserError(
            f"no op has {' or '.join(map(repr, words))} in its name",
            because="neither those with a converter nor the core ATen ops",
            fix=f"say {' or '.join(alike)}" if alike else "trtdiag ops lists all",
            reference="no-such-op",
        )
    return kept


def _plain(found: Coverage) -> dict[str, object]:
    return {
        "schema": "trtdiag-ops/1",
        "target": found.target.version,
        "dtypes": sorted(found.target.dtypes),
        "layers_written_otherwise": list(found.written_otherwise),
        "converters": [
            {"op": c.op, "schema": c.schema, "family": c.family, "notes": c.notes, "package": c.package}
            for c in found.converters
        ],
        "core_decomposed": list(found.decomposed),
        "core_sizes": list(found.sizes),
        "core_missing": [{"op": each.op, "reason": each.why, "meaning": each.meaning} for each in found.missing],
        "core_as_pairs": list(found.as_pairs),
        "complex": [{"op": f"aten.{op}", "becomes": becomes} for op, becomes in found.on_complex.items()],
        "counts": _counts(found),
    }


def _counts(found: Coverage) -> dict[str, int]:
    with_converter = found.core - sum(map(len, (found.decomposed, found.sizes, found.as_pairs, found.missing)))
    return {
        "converters": len(found.converters),
        "core": found.core,
        "core_with_converter": with_converter,
        "core_decomposed": len(found.decomposed),
        "core_sizes": len(found.sizes),
        "core_as_pairs": len(found.as_pairs),
        "core_missing": len(found.missing),
        "complex": len(found.on_complex),
    }


def _print(found: Coverage, console: Console, *, every: bool) -> None:
    if found.converters:
        others = not all(each.built_in for each in found.converters)
        package = ["package"] if others else []
        table = Table(
            "op", *package, "family", "what it does not take, or does in its own way", box=None, pad_edge=False
        )
        for each in found.converters:
            table.add_row(Text(each.op), *([Text(each.package)] if others else []), Text(each.family), Text(each.notes))
        console.print(table)
        console.print()
    if found.on_complex:
        pairs = Table("op on complex numbers", "as pairs of real tensors", box=None, pad_edge=False)
        for becomes, alike in grouped((becomes, f"aten.{op}") for op, becomes in found.on_complex.items()).items():
            pairs.add_row(Text(", ".join(alike)), Text(becomes))
        console.print(pairs)
        console.print()
    if found.missing:
        missing = Table("core op that stays with PyTorch", "reason", "", box=None, pad_edge=False)
        for core in found.missing:
            missing.add_row(Text(core.op), Text(core.why, style="yellow"), Text(core.meaning))
        console.print(missing)
        console.print()
    if not every:
        for names, what in (
            (found.decomposed, "taken apart into others"),
            (found.sizes, "sizes, computed where needed"),
        ):
            if names:
                console.print(Text(f"{what}: {', '.join(names)}"))
        return
    counts = _counts(found)
    brought_by = Counter(each.package for each in found.converters if not each.built_in)
    brought = "".join(f", {count} of them from {package}" for package, count in sorted(brought_by.items()))
    told = [
        f"{counts['converters']} ops have a converter{brought}.",
        f"Of {counts['core']} core ATen ops {counts['core_with_converter']} have a converter, "
        f"{counts['core_decomposed']} are taken apart, {counts['core_sizes']} are sizes and computed where they "
        f"are needed, {counts['core_as_pairs']} on complex numbers are written with real ones, "
        f"{counts['core_missing']} stay with PyTorch.",
        f"{counts['complex']} ops are also taken on complex numbers, as pairs of real tensors.",
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
