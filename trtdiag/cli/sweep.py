"""``trtdiag sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtdiag.cli.config import read_config, refuse_other
from trtdiag.cli.crash_reporter import last_words
from trtdiag.cli.engine_options import BUILD_OPTIONS, ENGINE_OPTIONS
from trtdiag.cli.option_groups import (
    BACKENDS,
    GroupedCommand,
    Options,
    chosen,
    debug_option,
    flag,
    number,
    one_of,
    output_options,
    path,
    several,
    with_options,
)
from trtdiag.cli.streams import own_console, prints_on_standard_error
from trtdiag.cli.sweep_progress import sweep_progress
from trtdiag.cli.value_checks import MOST_COUNT, Place, Positive, Seconds, listed
from trtdiag.cli.warning_output import told_if_verbose
from trtdiag.options import Precision

if TYPE_CHECKING:
    from trtdiag.fleet.outcome import Sweep

FAIL_ON = ("error", "warning", "regression", "never")
_FORMATS = ("html", "json", "sarif", "markdown")
_STEPS = ("analyze", "fix-dims", "compile", "verify", "bench")

_WHAT: Options = {
    "steps": several("STEPS", f"What is done: {','.join(_STEPS)}  [default: analyze]"),
    "target": several("VERSION", "TensorRT versions, such as 10.16 or rtx-1.7; several with commas."),
    "precision": {
        **one_of([each.value for each in Precision], "May be given several times  [default: keep]"),
        "multiple": True,
    },
    "gpu": several("GPU", "GPU generations for targets of TensorRT-RTX: sm75 to sm121, or all."),
    "backend": one_of(BACKENDS, "[default: tensorrt where installed]"),
}
_HOW: Options = {
    "workers": number(1, MOST_COUNT, "N", "Programs at once on this machine  [default: one a core]"),
    "address": {"metavar": "ADDRESS", "help": "A Ray cluster; its machines have the same folders  [default: none]"},
    "cpus": number(1, MOST_COUNT, "N", "Cores of a task, and threads of PyTorch  [default: 1]"),
    "memory_gib": {
        "type": Positive(),
        "metavar": "GIB",
        "help": "Memory that must be free for a task.",
    },
    "gpu_type": several("TYPE", "Types of GPU as Ray calls them (H100), each a case of its own."),
    "time_limit": {
        "type": Seconds(),
        "metavar": "SECONDS",
        "help": "For all steps of a program  [default: 1800]",
    },
    "retries": number(0, MOST_COUNT, "N", "Begin again when a process was ended, so often  [default: 2]"),
    "retry_failed": flag("Do what crashed or ran into its limit in an earlier run again."),
    "again": flag("Do everything again."),
}
_ENGINES: Options = {
    name: how
    for name, how in {**ENGINE_OPTIONS, **BUILD_OPTIONS}.items()
    if name not in ("precision", "gpu", "assume", "max")
} | {
    "portable": flag("Keep the networks, so that engines can be rebuilt elsewhere."),
    "force": flag("Compile in spite of ERROR findings."),
}
_WRITTEN: Options = {
    "format": several("FORMATS", f"Of the report of each program: {','.join(_FORMATS)}  [default: html]"),
    "csv": flag("Also write the table as results.csv."),
    "parquet": flag("Also write the table as results.parquet; needs pyarrow."),
    "compare": path("SWEEP", "The sweep to compare with, its folder or results.json  [default: what was in FOLDER]"),
    "open": flag("Open the page in the browser."),
}
GROUPS = (
    ("What is done", (*_WHAT, "select", "ignore")),
    ("How programs are run", tuple(_HOW)),
    ("What goes into engines, and how they are built", tuple(_ENGINES)),
    ("What is written", ("folder", *_WRITTEN, "fail_on", "quiet", "verbose", "debug")),
)


@click.command("sweep", cls=GroupedCommand, groups=GROUPS)
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "--folder", type=Place(path_type=Path), default=Path("sweep"), metavar="FOLDER", help="Keeps all  [default: sweep]"
)
@with_options(_WHAT)
@click.option("--select", multiple=True, metavar="RULE", help="Only these rules: ids, beginnings of ids, names.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Not these rules.")
@with_options({**_HOW, **_ENGINES, **_WRITTEN})
@click.option("--fail-on", type=click.Choice(FAIL_ON), help="Exit with 1 at this or what is worse  [default: error]")
@output_options
@debug_option
def sweep_command(
    sources: tuple[str, ...],
    folder: Path,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    compare: str | None,
    fail_on: str | None,
    quiet: bool,
    **rest: Any,
) -> int:
    """Look at many programs at once, each in a process of its own, on Ray.

    \b
    SOURCES are one or several of:
      models/                  its .pt2 and .ep files, and Hugging Face folders
      model.pt2, llama/        what analyze takes
      package.module:factory
      models.toml, models.json a manifest with a [[program]] for each

    FOLDER keeps what is done, by a digest of all that decides over it: whatever ends the command, run it again, and
    only what is missing is done.  FOLDER/index.html has a row for each program, rules by programs, ops by the engines
    that they cost, and what changed since the sweep before; each row leads to its report.

    Exit code 1 where a program has findings at --fail-on, did not come to its end, or gives other outputs.

    \b
    Examples:
      trtdiag sweep models/ --folder swept/
      trtdiag sweep models.toml --steps analyze,compile,verify
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    config = read_config(Path.cwd())
    threshold = fail_on or config.get("fail-on", "error")
    refuse_other("fail-on", threshold, (*FAIL_ON, "info"))
    given = _given(config, rest, select, ignore)
    from trtdiag.fleet.outcome import finished
    from trtdiag.fleet.results import read_results
    from trtdiag.fleet.sweep import run_sweep
    from trtdiag.fleet.tables import require_parquet

    if rest["parquet"]:
        require_parquet()
    if compare is not None:
        read_results(compare)  # what is no sweep is told before the work, not after it
    try:
        with (
            prints_on_standard_error(reports=True),
            told_if_verbose("trtdiag.raylets"),
            sweep_progress(quiet=quiet) as watch,
            last_words(lambda _step: None) as step,
        ):
            step("sweeping programs")
            swept = run_sweep(sources, folder, given, watch)
    except KeyboardInterrupt:
        click.echo(f"interrupted: the same command goes on, for {folder} keeps what is done", err=True)
        raise
    made = finished(swept, compare)
    for name in ("csv", "parquet"):
        if rest[name]:
            made.save(made.folder / f"results.{name}")
    if not quiet:
        from trtdiag.fleet.sweep_text import print_sweep

        print_sweep(made, own_console(), folder)
    if rest["open"]:
        from trtdiag.report.formats import open_page

        open_page(made.page)
    return exit_code(made, threshold)


def _given(
    config: dict[str, Any], rest: dict[str, Any], select: tuple[str, ...], ignore: tuple[str, ...]
) -> dict[str, Any]:
    """Fields of ``SweepOptions``: what was given; of ``[tool.trtdiag]`` what a manifest cannot say otherwise."""
    found: dict[str, Any] = {
        "steps": listed(rest["steps"]),
        "targets": listed(rest["target"]) or _one(config, "target"),
        "precisions": listed(rest["precision"]) or _one(config, "precision"),
        "gpus": listed(rest["gpu"]) or tuple(config.get("gpu", ())),
        "gpu_types": listed(rest["gpu_type"]),
        "backend": rest["backend"],
        "select": listed(select) or tuple(config.get("select", ())),
        "ignore": listed(ignore) or tuple(config.get("ignore", ())),
        "options": chosen(_ENGINES, config, rest),
        "time_limit_s": rest["time_limit"],
        "formats": listed(rest["format"]),
        **{name: rest[name] for name in ("workers", "address", "cpus", "memory_gib", "retries")},
        **{name: rest[name] for name in ("retry_failed", "again")},
    }
    return {name: value for name, value in found.items() if value not in (None, (), {})}


def _one(config: dict[str, Any], key: str) -> tuple[str, ...]:
    return (config[key],) if key in config else ()


def exit_code(made: Sweep, threshold: str) -> int:
    """1 where a row is at or beyond ``threshold``."""
    if threshold == "never":
        return 0
    if threshold == "regression":
        return int(made.comparison is not None and bool(made.comparison.regressions))
    fine = ("clean", "warning") if threshold == "error" else ("clean",)
    return int(any(row.state not in fine for row in made.rows))
