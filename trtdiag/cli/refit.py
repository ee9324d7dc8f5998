"""``trtdiag refit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtdiag.cli.default_names import name_after
from trtdiag.cli.option_groups import debug_option, output_options, verify_limit_option
from trtdiag.cli.output_paths import compiled_place, file_and_size, read_by
from trtdiag.cli.progress import step_line
from trtdiag.cli.streams import own_console
from trtdiag.cli.trace_option import trace_option, trace_places
from trtdiag.cli.user_code_options import working
from trtdiag.cli.value_checks import CheckedCommand, OutputFile
from trtdiag.errors import UserError
from trtdiag.files.same_file import refuse_same
from trtdiag.wording import amount

if TYPE_CHECKING:
    from trtdiag.artifact.refit import NewWeights


@click.command("refit", cls=CheckedCommand)
@click.argument("compiled")
@click.option("-w", "--weights", metavar="FILE", help="safetensors, a state dict of torch.save, or a .pt2.")
@click.option("--lora", multiple=True, metavar="ADAPTER", help="Merge a LoRA adapter: a folder of PEFT, or a file.")
@click.option("--lora-scale", type=float, default=1.0, show_default=True, help="How much of the adapters to take.")
@click.option("-o", "--output", type=OutputFile(path_type=Path), help="The program  [default: <compiled>_refit.pt2]")
@click.option("--model", metavar="SOURCE", help="The exported model to compare with  [default: that of COMPILED]")
@click.option("--no-verify", is_flag=True, help="Do not compare with the model before saving.")
@verify_limit_option
@trace_option
@output_options
@debug_option
def refit_command(
    compiled: str,
    weights: str | None,
    lora: tuple[str, ...],
    lora_scale: float,
    output: Path | None,
    model: str | None,
    no_verify: bool,
    verify_limit_s: float | None,
    quiet: bool,
) -> int:
    """Give the engines of COMPILED other weights of the same model; nothing is built.

    COMPILED was compiled with --refittable, and stays as it is.  Weights that are not of its model are refused with
    what differs.  The result is compared with the model with the new weights, as by compile: exit code 1 where outputs
    differ, and nothing is saved.

    \b
    Examples:
      trtdiag refit model_trt.pt2 --weights new.safetensors
      trtdiag refit model_trt.pt2 --lora adapter/ -o model_lora.pt2
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    if weights is None and not lora:
        raise UserError(
            "there are no weights to give",
            because="neither --weights nor --lora is there",
            fix="name a file of weights: trtdiag refit compiled.pt2 --weights new.safetensors",
            reference="wrong-argument",
        )
    usual = Path(f"{name_after(compiled)}_refit.pt2")
    destination = output or usual
    named = [("COMPILED", compiled), ("--weights", weights), ("--model", model), *(("--lora", each) for each in lora)]
    refuse_same(read_by(named), [compiled_place(output, usual), *trace_places()])
    with working(step_line(), reports=False) as step:
        # torch takes seconds: --help should not wait for it
        from trtdiag.pipeline.refit import RefitRequest, differs, refit_in_steps
        from trtdiag.report.compile_text import verification_text
        from trtdiag.verification.limits import VerifyLimits

        limits = VerifyLimits(total_s=verify_limit_s)
        request = RefitRequest(
            compiled,
            weights,
            lora,
            lora_scale,
            output=destination,
            model=model,
            verify=not no_verify,
            progress=step,
            limits=limits,
            must_verify=True,
        )
        found = refit_in_steps(request)
    console = own_console()
    if not quiet:
        for line in _told(found.weights):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        if found.verification is not None:
            console.print(verification_text(found.verification, found.names), crop=False)
    if found.verification is not None and not found.verification.passed:
        raise differs(found.verification)
    if not quiet:
        engines = amount(len(found.compiled.manifests), "engine")
        told = f"refitted {engines}, built none: {file_and_size(destination)}"
        console.print(told, highlight=False, markup=False, soft_wrap=True)
    return 0


def _told(weights: NewWeights) -> list[str]:
    told = []
    if weights.unread:
        shown = ", ".join(weights.unread[:4]) + (", ..." if len(weights.unread) > 4 else "")
        told.append(f"note: nothing in the program reads {shown}")
    if weights.stays:
        told.append(f"note: {amount(len(weights.stays), 'buffer')} that the program writes to stay as they are")
    return told
