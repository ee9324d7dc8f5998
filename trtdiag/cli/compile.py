"""``trtdiag compile``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtdiag.asked_profiles import read_profiles
from trtdiag.cli.config import read_config
from trtdiag.cli.default_names import name_after
from trtdiag.cli.engine_options import BUILD_OPTIONS, ENGINE_OPTIONS, chosen_engine_options
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
    verify_limit_option,
    with_options,
)
from trtdiag.cli.output_paths import check_reports, compiled_place, file_and_size, read_by, report_places
from trtdiag.cli.progress import COMPILE_STAGES, progress_bar
from trtdiag.cli.report_files import REPORT_OPTIONS, ReportFiles, asked_files
from trtdiag.cli.streams import own_console
from trtdiag.cli.trace_option import trace_option
from trtdiag.cli.user_code_options import model_options, named_source, users_options, working
from trtdiag.cli.value_checks import MOST_COUNT, OutputFile, Place, sizes_of, told_at_the_end
from trtdiag.errors import DiagnosisError, VerificationError
from trtdiag.files.destination import is_written_through
from trtdiag.files.same_file import Named, refuse_same
from trtdiag.options import AUTO, ENGINE_WEIGHTS, KERNEL_SPECIALIZATION, OPTIMIZE, CompileOptions

if TYPE_CHECKING:
    from trtdiag.report.report import Report
    from trtdiag.report.saved import SavedReport

_OPTIONS: Options = {
    "backend": one_of((*BACKENDS, AUTO), "auto: with --optimize latency  [default: tensorrt where installed]"),
    "optimize": one_of(OPTIMIZE, "latency: time each part as an engine and compiled by AOTInductor, take the faster"),
    "target": {"metavar": "VERSION", "help": "TensorRT version to compile for, such as 10.16 or rtx-1.7."},
    "keep_float": several("OP|MODULE", "Stays without quantizers under int8."),
    **BUILD_OPTIONS,
    "refittable": flag("Let engines take other weights later, without a build (trtdiag refit)."),
    "engine_weights": one_of(
        ENGINE_WEIGHTS, "Weights of engines in a file: inside, once beside them, or none  [default: inside]"
    ),
    "portable": flag("Keep the networks, so that engines can be rebuilt elsewhere."),
    "cuda_graphs": number(
        0, MOST_COUNT, "N", "Replay runs as CUDA graphs, for up to N sizes  [default: 0, latency: 8]"
    ),
    "runtime_cache": path("FILE", "Keep the kernels there that TensorRT-RTX compiles at first runs."),
    "rtx_cuda_graphs": flag("TensorRT-RTX itself replays whole runs as CUDA graphs."),
    "kernel_specialization": one_of(
        KERNEL_SPECIALIZATION, "When TensorRT-RTX compiles kernels for new sizes  [default: its own]"
    ),
    "profile_layers": flag("Time each layer of the engines, for the report."),
    "force": flag("Go on in spite of ERROR findings."),
}

# The options of the help by what they are about; a test holds this against the options that there are.
GROUPS = (
    (
        "What is compiled, and for what",
        (
            "backend",
            "optimize",
            "target",
            "inputs",
            "max",
            "assume",
            "unpickle",
            "imports",
            "factory_limit",
            "force",
            "no_verify",
            "verify_limit_s",
        ),
    ),
    (
        "What goes into engines",
        (
            "keep_in_torch",
            "min_segment_ops",
            "require_full",
            "random",
            "precision",
            "calibrate",
            "keep_float",
            "keep_fp32",
            "truncate_double",
            "gpu",
        ),
    ),
    ("How engines are built", ("opt", "profile", "refittable", *BUILD_OPTIONS)),
    (
        "How engines run",
        ("cuda_graphs", "runtime_cache", "rtx_cuda_graphs", "kernel_specialization", "profile_layers"),
    ),
    (
        "What is written",
        ("output", "portable", "engine_weights", "html", *REPORT_OPTIONS, "trace", "quiet", "verbose", "debug"),
    ),
)


@click.command("compile", cls=GroupedCommand, groups=GROUPS)
@click.argument("source")
@click.option("-o", "--output", type=OutputFile(path_type=Path), help="The program  [default: <source>_trt.pt2]")
@with_options({**ENGINE_OPTIONS, **_OPTIONS})
@click.option(
    "--calibrate",
    type=Place(),
    metavar="FILE",
    help="With --precision int8: a list of real inputs, by torch.save, to quantize the program with.",
)
@click.option("--opt", multiple=True, metavar="DIM=SIZE", help="The size to tune for  [default: the example's]")
@click.option(
    "--profile",
    multiple=True,
    metavar="NAME:DIM=MIN..MAX[@OPT],...",
    help="One of several profiles of each engine; the first that takes a call's sizes is used.",
)
@click.option("--no-verify", is_flag=True, help="Do not compare with the original before saving.")
@verify_limit_option
@click.option("--report", "html", type=OutputFile(path_type=Path), help="The HTML report  [default: <output>.html]")
@with_options(REPORT_OPTIONS)
@model_options
@users_options
@trace_option
@output_options
@debug_option
def compile_command(
    source: str,
    output: Path | None,
    calibrate: str | None,
    opt: tuple[str, ...],
    profile: tuple[str, ...],
    no_verify: bool,
    verify_limit_s: float | None,
    html: Path | None,
    inputs: tuple[str, ...],
    unpickle: bool,
    imports: tuple[str, ...],
    quiet: bool,
    **rest: Any,
) -> int:
    """Compile SOURCE: a .pt2 or .ep file, package.module:factory, or what else analyze takes.

    Diagnoses it first: ERROR findings stop the compilation (exit 1) unless --force is given.  Then converts, builds,
    compares with the original at the corners of its ranges, as many as --verify-limit has time for, and saves one file
    that torch.export.load reads.

    Exit code 1 where ERROR findings stop it; where outputs differ, when only --force saves the file; and where nothing
    of the program goes into an engine.  Engines of the reference backend are engines: asked for, or taken where
    TensorRT is not installed, they end with 0.

    \b
    Examples:
      trtdiag compile model.pt2
      trtdiag compile model.pt2 --precision fp16 --opt batch=8 -o model_trt.pt2
      trtdiag compile model.pt2 --precision int8 --calibrate data.pt
      trtdiag compile llama/ --profile decode:t=1 --profile prefill:t=2..1024
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    config = read_config(Path.cwd())
    asked = {**chosen_engine_options(config, rest), **chosen(_OPTIONS, config, rest)}
    options = CompileOptions(
        **asked, opt=sizes_of(opt), profiles=read_profiles(profile), verify=not no_verify, verify_limit_s=verify_limit_s
    )
    usual = Path(f"{name_after(source)}_trt.pt2")
    destination = output or usual
    page = usual if is_written_through(destination) else destination
    files = asked_files(rest, html, page.with_suffix(".html"), output_option="--report")
    places = [compiled_place(output, usual), *report_places(files), *caches(options)]
    reads = read_by(
        [("SOURCE", source), ("--compare", files.compare), ("--calibrate", calibrate)], imports, configured=True
    )
    refuse_same(reads, places)
    check_reports([], report_places(files))
    console = own_console()
    quiet = quiet or files.to_stdout
    earlier: SavedReport | None = None
    try:
        with working(progress_bar(COMPILE_STAGES), imports, reports=files.to_stdout) as step:
            from trtdiag.artifact.save import save  # torch takes seconds: --help should not wait for it
            from trtdiag.pipeline.compile import compile_in_stages
            from trtdiag.report.compile_text import (
                ending_text,
                engines_text,
                gpus_line,
                stages_text,
                verification_text,
            )
            from trtdiag.report.layers_text import slowest_text
            from trtdiag.report.quantization_words import quantization_text
            from trtdiag.report.saved import read_report
            from trtdiag.report.terminal import comparison_text
            from trtdiag.report.view_comparison import comparison_view

            # A file that is no report is told before the work, not after it.
            earlier = None if files.compare is None else read_report(files.compare)
            asked_for = named_source(source, inputs, unpickle=unpickle)
            found = compile_in_stages(asked_for, options, progress=step, calibrate=calibrate)
            verification = found.verification
            differs = verification is not None and verification.differs
            agreed = verification is None or verification.passed
            step("save")
            report = _compared(found.report, earlier, files.compare)
            saved = False
            if agreed or options.force:
                with told_at_the_end():  # first: what took longest to make is there if the disk ends here
                    save(found.compiled, destination)
                    saved = True
            written = files.write(report)
    except DiagnosisError as error:
        _tell_findings(error, earlier, files, quiet=quiet)
        raise
    program, facts = found.report.analysis.program, found.report.analysis.compilation
    every_engine = 0 if facts is None else len(facts.engines)
    if not quiet:
        notes = () if facts is None else facts.notes
        told = engines_text(found.plan, found.converted, found.engines, notes, found.optimization)
        console.print(told, crop=False)
        built_for = gpus_line(found.engines)
        if built_for:
            console.print(f"{built_for}\n", highlight=False, markup=False)
        for note in (each for each in program.notes if each not in notes):  # these stand above
            console.print(f"note: {note}", style="dim", highlight=False, markup=False, soft_wrap=True)
        if facts is not None and facts.quantization is not None:
            console.print(quantization_text(facts.quantization))
        if found.verification is not None:
            console.print(verification_text(found.verification, program.words), crop=False)
        if options.profile_layers and facts is not None:
            console.print(slowest_text(facts.engines))
        if report.comparison is not None:
            console.print(comparison_text(comparison_view(report.comparison)))
        console.print(stages_text(found.stages))
        if saved:
            kept, compiled = (
                every_engine - len(found.engines) - len(found.pytorch_segments),
                len(found.pytorch_segments),
            )
            console.print(ending_text(found.engines, kept, file_and_size(destination), compiled), crop=False)
        for place in written:
            console.print(f"report: {place}", highlight=False, markup=False, soft_wrap=True)
    if not agreed and not options.force:
        skipped = [] if verification is None else [result.skipped for result in verification.results]
        raise _not_saved("" if differs else next(iter(skipped), "it has no sizes"), told=not quiet)
    return int(differs or not every_engine)


def _tell_findings(error: DiagnosisError, earlier: SavedReport | None, files: ReportFiles, *, quiet: bool) -> None:
    """Write and print the report of a program that was not compiled."""
    from trtdiag.report.report import Report
    from trtdiag.report.terminal import print_summary

    if isinstance(error.report, Report):
        report = _compared(error.report, earlier, files.compare)
        written = files.write(report)
        if not quiet:
            print_summary(report.analysis, own_console(), written, comparison=report.comparison)


def caches(options: CompileOptions) -> Iterator[Named]:
    """The caches that are made or written."""
    for name in ("engine_cache", "timing_cache", "runtime_cache"):
        asked = getattr(options, name)
        place = None if asked is None else Path(asked).expanduser()
        if place is not None and not (name == "engine_cache" and place.exists()):
            yield Named(f"--{name.replace('_', '-')}", str(place))


def _not_saved(unverified: str, *, told: bool) -> VerificationError:
    """The program differs from the original, or why that is not known."""
    if unverified:
        return VerificationError(
            "the compiled program was not verified, and was not saved",
            because=f"no point could be compared: {unverified}",
            fix="give example inputs that the model and --assume take, or declare smaller sizes; --force or --no-verify"
            " saves it as it is",
            reference="not-verified",
        )
    return VerificationError(
        "the compiled program gives something else than the original, and was not saved",
        because="see the points above" if told else "at least one output differs at one point",
        fix="leave the op where it begins to PyTorch with --keep-in-torch, and report it; --force saves anyway",
        reference="verification-failed",
    )


def _compared(report: Report, earlier: SavedReport | None, name: str | None) -> Report:
    return report if earlier is None else report.compare(earlier, name=name)
