"""``trtdiag compile``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from trtdiag.cli.analyze import import_module
from trtdiag.cli.config import read_config
from trtdiag.cli.progress import step_line
from trtdiag.cli.words import listed, sizes_of
from trtdiag.errors import DiagnosisError, VerificationError
from trtdiag.options import CompileOptions, PartitionOptions, Precision


@click.command("compile")
@click.argument("source")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The compiled program  [default: <name>_trt.ep]")
@click.option("--backend", type=click.Choice(("reference", "tensorrt")), help="[default: tensorrt where installed]")
@click.option("--target", metavar="VERSION", help="TensorRT version to compile for: 8.6, 10.16, 11.4.")
@click.option("--precision", type=click.Choice([p.value for p in Precision]), default="keep", show_default=True)
@click.option("--keep-fp32", multiple=True, metavar="OP|MODULE", help="Stays float32 under fp16 and bf16.")
@click.option("--truncate-double", is_flag=True, help="Compute float64 in float32.")
@click.option("--opt", multiple=True, metavar="DIM=SIZE", help="The size to tune for  [default: the example's]")
@click.option("--min-segment-ops", type=int, default=5, show_default=True, help="Smaller segments stay in PyTorch.")
@click.option("--keep-in-torch", multiple=True, metavar="OP|MODULE", help="Leave it to PyTorch.")
@click.option("--require-full", is_flag=True, help="Refuse a program that does not fit into one engine.")
@click.option("--portable", is_flag=True, help="Keep the networks, so that engines can be rebuilt elsewhere.")
@click.option("--force", is_flag=True, help="Go on in spite of ERROR findings.")
@click.option("--no-verify", is_flag=True, help="Do not compare with the original before saving.")
@click.option("--report", "html", type=click.Path(path_type=Path), help="The HTML report  [default: <output>.html]")
@click.option("--no-html", is_flag=True, help="Write no HTML report.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import first: a package of custom ops.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def compile_command(
    source: str,
    output: Path | None,
    backend: str | None,
    target: str | None,
    precision: str,
    keep_fp32: tuple[str, ...],
    truncate_double: bool,
    opt: tuple[str, ...],
    min_segment_ops: int,
    keep_in_torch: tuple[str, ...],
    require_full: bool,
    portable: bool,
    force: bool,
    no_verify: bool,
    html: Path | None,
    no_html: bool,
    imports: tuple[str, ...],
    quiet: bool,
    debug: bool,
) -> int:
    """Compile SOURCE: a .pt2 or .ep file, or package.module:factory.

    Diagnoses it first: ERROR findings stop the compilation (exit 1) unless --force is given.  Then converts, builds,
    compares with the original at every corner of its ranges, and saves one file that torch.export.load reads.
    """
    del debug  # read by main
    config = read_config(Path.cwd())
    options = CompileOptions(
        target=target or config.get("target"),
        backend=backend,
        precision=Precision(precision),
        keep_fp32=listed(keep_fp32),
        truncate_double=truncate_double,
        partition=PartitionOptions(min_segment_ops, listed(keep_in_torch), require_full),
        opt=sizes_of(opt),
        portable=portable,
        force=force,
        verify=not no_verify,
    )
    destination = output or Path(default_output(source))
    page = None if no_html else html or destination.with_suffix(".html")
    console = Console()
    with step_line() as step:
        step("load torch")
        for name in imports:
            import_module(name)
        from trtdiag.artifact.save import save  # torch takes seconds: --help should not wait for it
        from trtdiag.compiling import compile_in_stages
        from trtdiag.report.compile_text import engines_text, stages_text, verification_text
        from trtdiag.report.terminal import print_summary

        try:
            found = compile_in_stages(source, options, progress=step)
        except DiagnosisError as error:
            report = getattr(error, "report", None)
            if report is not None and page is not None:
                report.save(page)
            if report is not None and not quiet:
                print_summary(report.analysis, console, [str(page)] if page is not None else [])
            raise
        failed = found.verification is not None and not found.verification.passed
        step("save")
        if page is not None:
            found.report.save(page)
        if not failed or force:
            save(found.compiled, destination)
    if not quiet:
        manifests = [engine.manifest for engine in found.engines]
        names, target_version = found.report.analysis.program.names, found.plan.target.version
        console.print(engines_text(found.plan.partitioned, found.converted, manifests, target_version, names))
        if found.verification is not None:
            console.print(verification_text(found.verification, names))
        console.print(stages_text(found.stages))
        if not failed or force:
            console.print(
                f"compiled: {destination} ({destination.stat().st_size:,} bytes)", highlight=False, markup=False
            )
        if page is not None:
            console.print(f"report: {page}", highlight=False, markup=False)
    if failed and not force:
        raise VerificationError(
            "the compiled program gives something else than the original, and was not saved",
            because="see the points above" if not quiet else "at least one output differs at one point",
            fix="leave the op where it begins to PyTorch with --keep-in-torch, and report it; --force saves anyway",
            reference="verification-failed",
        )
    return 0


def default_output(source: str) -> str:
    """``model_trt.ep`` for ``models/model.pt2``, ``build_trt.ep`` for ``package.module:build``."""
    named = source.partition(":")[2] if ":" in source and not Path(source).exists() else Path(source).stem
    return f"{named}_trt.ep"
