"""Programs times targets, precisions and GPUs, as cases with their steps and keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

from trtdiag.errors import UserError
from trtdiag.fleet.digests import Digests, digest_of, of_tool
from trtdiag.fleet.facts import Case, Needs, Step, SweepProgram, Variant
from trtdiag.fleet.options import SweepOptions
from trtdiag.options import AnalyzeOptions, PartitionOptions
from trtdiag.targets import Target, chosen_gpus, get_rtx_target, get_target, installed_version

_KEY_CHARS = 32
"""Of a digest's 64: 128 bits."""
_OF_ANALYZE = frozenset(each.name for kind in (AnalyzeOptions, PartitionOptions) for each in fields(kind))
_ON_GPU = frozenset({"compile", "verify", "bench"})


def cases_of(programs: Sequence[SweepProgram], options: SweepOptions, digests: Digests) -> tuple[Case, ...]:
    """Every case, in the order of the programs.

    Raises:
        UserError: ``unknown-target``, ``unknown-gpu``, ``sweep-gpus``.
    """
    backend = options.backend or ("tensorrt" if installed_version() else "reference")
    variants = variants_of(options, backend)
    return tuple(_case(program, each, options, backend, digests) for program in programs for each in variants)


def variants_of(options: SweepOptions, backend: str) -> tuple[Variant, ...]:
    """Targets times precisions times GPUs; generations go with targets that build for GPUs that are not here.

    Raises:
        UserError: ``unknown-target``, ``unknown-gpu``, ``sweep-gpus``.
    """
    usual = get_rtx_target(None) if backend == "tensorrt-rtx" else get_target(None)
    targets = list({found.version: found for found in map(get_target, options.targets)}.values()) or [usual]
    if options.gpus and not any(target.gpus for target in targets):
        raise UserError(
            "GPU generations are asked for, and no target of TensorRT-RTX",
            because=f"{', '.join(target.name for target in targets)} builds for the GPU that is there",
            fix="name a target such as rtx-1.7; for TensorRT give the type of GPU: --gpu-type H100",
            reference="sweep-gpus",
        )
    if options.gpu_types and not _ON_GPU & {*options.steps}:
        raise UserError(
            "types of GPU are asked for, and no step that needs one",
            because=f"the steps are {', '.join(options.steps)}",
            fix="leave them out, or add compile to the steps",
            reference="sweep-gpus",
        )
    types = options.gpu_types or ("",)
    return tuple(
        Variant(target.version, precision, gpu, kind)
        for target in targets
        for precision, gpu, kind in product(options.precisions, _generations(target, options.gpus), types)
    )


def _generations(target: Target, asked: Sequence[str]) -> tuple[str, ...]:
    if not target.gpus or not asked:
        return ("",)
    return chosen_gpus(target, asked)


def _case(program: SweepProgram, variant: Variant, options: SweepOptions, backend: str, digests: Digests) -> Case:
    needs = program.needs or Needs(options.cpus, options.memory_gib)
    if _ON_GPU & {*options.steps} and (backend == "tensorrt" or variant.gpu_type):
        needs = replace(needs, gpus=max(1, needs.gpus), gpu_type=variant.gpu_type or needs.gpu_type)
    limit_s = options.time_limit_s if program.time_limit_s is None else program.time_limit_s
    content = digests.of_program(program)
    steps = tuple(_steps(program, content, variant, options, backend))
    return Case(program, variant, steps, limit_s, needs, digest_of(content))


def _steps(
    program: SweepProgram, content: list[str], variant: Variant, options: SweepOptions, backend: str
) -> Iterator[Step]:
    about = {
        "tool": of_tool(),
        "program": content,
        "inputs": program.inputs,
        "imports": program.imports,
        "meta": program.meta,
        "unpickle": program.unpickle,
    }
    before = ""
    for name in options.steps:
        told = _told(name, program, variant, options, backend)
        # What fix-dims and compile give is what the next one takes.
        on = {"gpu_type": variant.gpu_type} if name in _ON_GPU else {}
        key = digest_of({**about, **on, "step": name, "options": told, "before": before})[:_KEY_CHARS]
        if name in ("fix-dims", "compile"):
            before = key
        yield Step(name, key, told)


def _told(name: str, program: SweepProgram, variant: Variant, options: SweepOptions, backend: str) -> Mapping[str, Any]:
    """The options of a step, as JSON has them."""
    if name not in ("analyze", "compile"):
        return {}
    every = {**options.options, **program.options}
    found: dict[str, Any] = {"target": variant.target, "precision": variant.precision}
    if variant.gpu:
        found["gpu"] = [variant.gpu]
    found["formats"] = list(options.formats)
    if name == "analyze":
        chosen = {key: value for key, value in every.items() if key in _OF_ANALYZE}
        return {**chosen, **found, "select": list(options.select), "ignore": list(options.ignore)}
    return {**every, **found, "backend": backend, "verify": "verify" in options.steps}
