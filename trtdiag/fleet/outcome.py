"""``trtdiag.sweep``, and what it gives."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtdiag.arguments import checked, function, optional, path, place
from trtdiag.errors import UserError
from trtdiag.files.atomic_write import write_whole
from trtdiag.fleet.comparison import SweepComparison, compared
from trtdiag.fleet.facts import Measured
from trtdiag.fleet.results import (
    EARLIER,
    PAGE,
    RESULTS,
    SECONDS,
    SavedSweep,
    id_of,
    read_results,
    results_json,
    seconds_json,
    text_of,
)
from trtdiag.fleet.rows import Row, measured_of, row_of
from trtdiag.fleet.sweep import Standing, Swept, Watch, run_sweep
from trtdiag.fleet.tables import save_table, table_rows
from trtdiag.fleet.totals import Totals, totals_of
from trtdiag.fleet.view import comparison_line, headline, sweep_page
from trtdiag.options import Progress
from trtdiag.report.save import telling
from trtdiag.wording import one_line

_MOST_TOLD = 4


@dataclass(frozen=True, repr=False)
class Sweep:
    """What a sweep found.

    Attributes:
        folder: Where its files are: ``index.html``, ``results.json``, ``seconds.json``, and those of each step.
        rows: A row for each program, target, precision and GPU, in the order of the programs.
        measured: What was measured of each row, by step.
        totals: Numbers over all rows.
        comparison: What changed since the sweep before; ``None`` where there is none.
    """

    folder: Path
    rows: tuple[Row, ...]
    measured: tuple[Mapping[str, Measured], ...]
    totals: Totals
    comparison: SweepComparison | None

    @property
    def page(self) -> Path:
        """The page."""
        return self.folder / PAGE

    @property
    def failed(self) -> tuple[Row, ...]:
        """The rows that did not come to their end, or whose outputs differ."""
        fine = ("error", "incomplete", "warning", "clean")
        return tuple(row for row in self.rows if row.state not in fine)

    def table(self) -> list[dict[str, Any]]:
        """The rows as flat values by column, for a data frame."""
        return [*table_rows(self.rows, self.measured)]

    @checked(path=path)
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the table in the format of the suffix: ``.csv``, or ``.parquet`` with pyarrow.

        Raises:
            UserError: The suffix is another, or the place cannot be written.
            PlatformError: ``pyarrow-not-installed``.
        """
        where = Path(path)
        save_table(where, self.rows, self.measured)
        return where

    def to_json(self) -> str:
        """The results as JSON, see ``sweep-1.schema.json``: the same text for one worker and for many."""
        return text_of(results_json(self.rows, self.totals, self.comparison))

    def __repr__(self) -> str:
        lines = [f"Sweep of {headline(self.totals)}"]
        lines += [] if self.comparison is None else [f"  {comparison_line(self.comparison)}"]
        lines += [f"  {row.label}: {row.state}: {one_line(row.text)}" for row in self.failed[:_MOST_TOLD]]
        return "\n".join([*lines, f"  {self.page}"])


@checked(folder=path, compare=optional(place), progress=optional(function))
def sweep(
    programs: Any,
    folder: str | os.PathLike[str] = "sweep",
    *,
    steps: str | Sequence[str] | None = None,
    targets: str | Sequence[str] | None = None,
    precisions: str | Sequence[str] | None = None,
    gpus: str | Sequence[str] | None = None,
    gpu_types: str | Sequence[str] | None = None,
    backend: str | None = None,
    select: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    address: str | None = None,
    cpus: int | None = None,
    memory_gib: float | None = None,
    time_limit_s: float | None = None,
    retries: int | None = None,
    retry_failed: bool | None = None,
    again: bool | None = None,
    formats: str | Sequence[str] | None = None,
    compare: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Look at many programs, for all targets, precisions and GPUs, each in a process of its own on Ray.

    What was done stays in ``folder``: run again, whatever ended it, only what is missing is done.  What is ``None``
    counts as a manifest says it, else as usual.

    Args:
        programs: Files, folders of them, folders of Hugging Face, ``"package.module:factory"``, manifests (``.toml``,
            ``.json``), or dicts with the keys of a program in a manifest; one or a list.
        folder: Where everything is written.
        steps: What is done: ``analyze`` (usual), ``fix-dims``, ``compile``, ``verify``, ``bench``.
        targets: TensorRT versions.
        precisions: What engines compute float32 in: ``keep``, ``fp16``, ``bf16``.
        gpus: GPU generations (``sm89``), for targets of TensorRT-RTX.
        gpu_types: Types of GPU as Ray calls them (``H100``), which TensorRT builds on.
        backend: ``reference``, ``tensorrt`` or ``tensorrt-rtx``.
        select: Rules to run, as for ``analyze``.
        ignore: Rules to leave out.
        options: Other options of ``compile`` by name.
        workers: How many programs at once on this machine; usually one a core.
        address: Of a Ray cluster, whose machines have ``folder`` and the programs at the same places.
        cpus: Cores of a task; usually 1.
        memory_gib: Memory that must be free for a task, in GiB.
        time_limit_s: For all steps of a program, in seconds; usually 1,800.
        retries: How often a program is begun again whose process was ended; usually 2.
        retry_failed: Do what crashed or ran into its limit in an earlier run again.
        again: Do everything again.
        formats: Of each report: ``html`` (usual), ``json``, ``sarif``, ``markdown``.
        compare: The sweep to compare with: a folder, or its ``results.json``; usually what was in ``folder`` before.
        progress: Called with how far it is.

    Raises:
        UserError: A source, an option or a manifest is wrong, or the folder holds something else.
        PlatformError: Ray is not installed or cannot be used; this machine has not what a task asks for.
    """
    named = ("programs", "folder", "compare", "progress")
    given = {name: value for name, value in locals().items() if name not in (*named, "named") and value is not None}
    several = list(programs) if isinstance(programs, (list, tuple)) else [programs]
    if compare is not None:
        read_results(compare)  # what is no sweep is told before the work, not after it
    return finished(run_sweep(several, folder, given, _in_words(progress)), compare)


def _in_words(progress: Progress | None) -> Watch:
    return lambda standing: None if progress is None else progress(standing_text(standing))


def standing_text(standing: Standing) -> str:
    """``312 of 1,000 done, 5 of them ended early: the last is net: its process was ended``."""
    text = f"{standing.done:,} of {standing.total:,} done"
    if standing.failed:
        label, why = standing.failed[-1]
        text += f", {len(standing.failed):,} of them ended early: the last is {label}: {why}"
    return f"{text}; {standing.waits_for}" if standing.waits_for else text


def finished(swept: Swept, compare: str | os.PathLike[str] | None = None) -> Sweep:
    """Put together what all cases found, and write it.

    Args:
        swept: The cases.
        compare: The sweep to compare with; the one that was in the folder before where not given.

    Raises:
        UserError: ``report-not-writable``, ``sweep-not-readable``.
    """
    rows = tuple(row_of(swept.root, case) for case in swept.cases)
    measured = tuple(measured_of(swept.root, case) for case in swept.cases)
    totals = totals_of(rows)
    before = read_results(compare) if compare is not None else _before(swept.root, id_of(rows))
    name = "the sweep before" if compare is None else os.fspath(compare)
    comparison = None if before is None else compared(before.rows, rows, name)
    made = Sweep(swept.root, rows, measured, totals, comparison)
    page = sweep_page(rows, measured, totals, comparison, swept.options, swept.root.name)
    seconds = seconds_json([*zip(rows, measured, strict=True)])
    for file, text in ((SECONDS, json.dumps(seconds, indent=1) + "\n"), (PAGE, page), (RESULTS, made.to_json())):
        with telling(swept.root / file, "sweep"):
            write_whole(swept.root / file, (text.encode(),))
    return made


def _before(root: Path, now: str) -> SavedSweep | None:
    """The sweep that was in this folder before; results that are replaced are kept as those first."""
    try:
        there = read_results(root / RESULTS)
    except UserError:
        there = None
    if there is not None and there.id != now:
        with telling(root / EARLIER, "sweep"):
            write_whole(root / EARLIER, ((root / RESULTS).read_bytes(),))
        return there
    try:
        return read_results(root / EARLIER)
    except UserError:
        return None
