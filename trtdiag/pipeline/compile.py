"""``compile``: diagnose, convert, build, assemble, verify.  Like ``pipeline`` it names stages and does nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trtdiag.analysis.after_compiling import after_compiling
from trtdiag.analysis.compilation import CompilationFacts, engine_facts
from trtdiag.analysis.fallbacks import partition_facts
from trtdiag.analysis.result import StageTiming
from trtdiag.arguments import checked, function, instance, optional
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.backend import Backend, get_backend
from trtdiag.engine.build import Engine, build_engine
from trtdiag.engine.builds import build_engines
from trtdiag.engine.profiles import network_profile
from trtdiag.errors import DiagnosisError, EngineBuildError
from trtdiag.files.same import Named, refuse_same
from trtdiag.frontend.capture import Source
from trtdiag.frontend.module_inputs import Inputs, module_inputs
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.network import Network, to_bytes
from trtdiag.network import run as run_network
from trtdiag.option_keywords import CompileKeywords, shows_options
from trtdiag.option_warnings import warn_of, without_effect
from trtdiag.options import AnalyzeOptions, CompileOptions, with_changes
from trtdiag.partition.engine_plan import EnginePlan
from trtdiag.pipeline.accuracy_repair import Made, counted, mended
from trtdiag.pipeline.analyze import Progress, entry_warnings, examine
from trtdiag.pipeline.build_fallback import build_or_yield
from trtdiag.pipeline.compile_errors import refuse_errors, with_proposal, without_graph
from trtdiag.pipeline.plan_engines import Stage, convert_segments, plan_engines
from trtdiag.report.engine_words import saved_words
from trtdiag.report.report import Report
from trtdiag.runtime.assemble import assemble, engine_buffers
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import compiled_device, on_engine_device, require_kernels
from trtdiag.runtime.earlier_engines import all_networks, refuse_on_other_devices
from trtdiag.runtime.engine_layers import told_layers
from trtdiag.runtime.engine_nodes import split_nodes
from trtdiag.runtime.engine_runs import EngineRuns
from trtdiag.shapes.opt_sizes import opt_sizes, symbol_profiles
from trtdiag.symbolic import mul
from trtdiag.targets.target import Target
from trtdiag.verification.bisect import first_difference
from trtdiag.verification.by_reference import by_reference, told_not_run
from trtdiag.verification.facts import Culprit, OutputError, Point, Tolerance, Verification
from trtdiag.verification.run import VerifyLimits, elements_of, verify
from trtdiag.verification.same_device import beside, inputs_of
from trtdiag.verification.ties import judged_ties
from trtdiag.verification.undefined_writes import undefined_outputs

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SIDE_BY_SIDE = ("build", "mend", "profile")
"""Stages that wait for engines: threads are in them at once; those inside take their turn."""
_BY_NAME = "give its fields by name: compile(source, precision='fp16')"


@dataclass(frozen=True)
class Compilation:
    """What became of compiling.

    Attributes:
        compiled: The program.
        report: What the diagnosis found, and what became of compiling.
        plan: What went into engines.
        converted: Each engine's network.
        engines: Each engine with its manifest.
        verification: The comparison with the original; ``None`` where it was not asked for.
        stages: Each stage with its time, those of the diagnosis first.
    """

    compiled: CompiledProgram
    report: Report
    plan: EnginePlan
    converted: tuple[ConvertedSegment, ...]
    engines: tuple[Engine, ...]
    verification: Verification | None
    stages: tuple[StageTiming, ...]


class _Clock:
    """Times stages."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.stages: list[StageTiming] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.progress(name)
        started = time.perf_counter()
        with _turn(name):
            yield
        self.stages.append(StageTiming(name, "ok", time.perf_counter() - started))

    def add(self, name: str, message: str) -> None:
        """Say something of a stage."""
        self.stages = [replace(one, message=message) if one.name == name else one for one in self.stages]


@contextmanager
def _turn(stage: str) -> Iterator[None]:
    with nullcontext() if stage in _SIDE_BY_SIDE else TORCH_TURN:
        yield


@shows_options(CompileOptions)
@checked(options=optional(instance(CompileOptions, how=_BY_NAME)), progress=optional(function))
def compile(
    source: Source,
    options: CompileOptions | None = None,
    *,
    inputs: Inputs | None = None,
    progress: Progress | None = None,
    **changes: Unpack[CompileKeywords],
) -> CompiledProgram:
    """Compile a program: what has a converter runs in engines, the rest in PyTorch, with the reason in the report.

    Args:
        source: As for ``analyze``: a file, a live ``ExportedProgram``, a factory, or what a factory returns; a module
            with ``inputs``.
        options: How; what ``changes`` name counts instead.
        inputs: Where ``source`` is a module: what to export it with, as for ``analyze``.  Engines are tuned for the
            ``opt`` of each ``Input``.
        progress: Called with the name of each stage as it begins.
        **changes: Single fields of ``options``, or of its ``partition``, by name:
            ``compile(model, precision="fp16", min_segment_ops=1)``.

    Raises:
        CaptureError: The source cannot be read into a program.
        DiagnosisError: It has findings of severity ERROR; ``force=True`` goes on.  ``inputs-refused``: torch.export
            refuses the sizes of ``inputs``; says what fix-dims proposes.
        UnsupportedOpError: ``require_full``, and an op must stay with PyTorch.
        PlatformError: The backend cannot be used here.
        EngineBuildError: The backend refuses a network.
        UserError: An option is unknown or wrong; ``wrong-argument``; ``program-devices`` where the program is on
            several devices; ``same-file`` where the timing cache is the source.

    Warns:
        OptionWarning: Of each option that has no effect with this backend, these other options, or this program.
    """
    chosen = with_changes(options or CompileOptions(), changes)
    if inputs is None:
        return compile_in_stages(source, chosen, progress=progress).compiled
    asked = module_inputs(source, inputs)
    chosen = replace(chosen, opt=(*asked.opt, *chosen.opt))
    try:
        return compile_in_stages(asked, chosen, progress=progress).compiled
    except DiagnosisError as error:
        raise with_proposal(error, asked) from error


def compile_in_stages(
    source: Source, options: CompileOptions, *, progress: Progress | None = None, limits: VerifyLimits | None = None
) -> Compilation:
    """``compile`` with everything that was found on the way; raises the same."""
    clock = _Clock(progress or (lambda _stage: None))
    _refuse_cache_over_source(source, options)
    backend = get_backend(options.backend)
    target = backend.target(options.target)
    options = replace(options, gpu=backend.chosen_gpus(target, options.gpu))
    backend.require(target)
    target = target.on(options.gpu)
    cannot_run = backend.cannot_run(options.gpu)
    report = examine(source, diagnosis_options(options, target), progress=clock.progress)
    warn_of((*without_effect(options, backend.name), *entry_warnings(report.analysis)))
    refuse_errors(report, force=options.force)
    analysis = report.analysis
    program, checked = analysis.program, analysis.checked
    if checked is None or program.exported is None:
        raise without_graph(report)
    before = compiled_device(program.exported)
    refuse_on_other_devices(program.exported, backend.device)
    planned = None if analysis.partition is None else replace(analysis.partition.plan, options=options)
    # Without a plan one of its stages failed in the analysis, which tells of it; here the fault is the answer.
    if planned is None or options.partition.require_full:
        planned = plan_engines(program, checked, analysis.dims, target, options, clock)
    plan = planned
    with clock("convert"):
        plan, converted = convert_segments(plan, program)
    moved = before is not None and before.type != backend.device and not cannot_run

    def make(
        plan: EnginePlan, converted: tuple[ConvertedSegment, ...], kept: Mapping[int, Engine], *, stage: Stage
    ) -> Made:
        if moved:
            require_kernels(plan.lowered, plan.partitioned.fallback, backend.device)
        with stage("build"):
            own = {id(converted[index]): engine for index, engine in kept.items()}
            build = partial(_built, backend=backend, report=report, progress=clock.progress, kept=own)
            probe = partial(_part, backend=backend, report=report, progress=clock.progress)
            built = build_or_yield(plan, converted, program, build, probe)
            plan, converted, engines = built.plan, built.converted, built.engines
        with stage("assemble"):
            exported = assemble(plan.lowered, plan.partitioned, converted, engines, program)
            exported = exported if cannot_run else on_engine_device(exported, backend.device)
            buffers = engine_buffers(plan.lowered, len(engines))
            networks = [to_bytes(one.network) for one in converted] if options.portable else []
            kept_networks = all_networks(exported, buffers, networks) if options.portable else ()
            made = CompiledProgram(exported, kept_networks, options=options, source=_file(source))
        if not options.verify:
            return Made(plan, converted, engines, made, None, built.notes)
        with stage("verify"):
            run = by_reference(plan, converted, program) if cannot_run else made
            runs = EngineRuns(split_nodes(run.exported_program, buffers)[0], options)
            found = compare(report, plan, converted, run, options, limits, engines=runs, progress=clock.progress)
            found = told_not_run(found, cannot_run)
        return Made(plan, converted, engines, made, found, built.notes)

    made = make(plan, converted, {}, stage=clock)
    clock.add("build", saved_words([engine.saved for engine in made.engines]))
    if made.verification is not None and not made.verification.passed and not cannot_run:
        with clock("mend"):
            made = mended(made, program, partial(make, stage=_turn))
    plan, converted, engines, compiled = made.plan, made.converted, made.engines, made.compiled
    verification = made.verification
    if before is not None and moved:
        note = f"it was exported on {before}, and its engines run on {backend.device}: inputs are taken there now"
        analysis = replace(analysis, program=replace(program, notes=(*program.notes, note)))
    nodes, earlier = split_nodes(compiled.exported_program, engine_buffers(plan.lowered, len(engines)))
    notes = [*made.notes, *(f"engine {index}: {note}" for index, each in enumerate(engines) for note in each.notes)]
    if earlier:
        notes.append(f"{counted(len(earlier), 'engine')} of an earlier compilation stay as they are")
    if notes:
        program = analysis.program
        analysis = replace(analysis, program=replace(program, notes=(*program.notes, *notes)))
    compiled.build_s = sum(stage.seconds for stage in clock.stages if stage.name in ("convert", "build", "mend"))
    if analysis.partition is not None and analysis.partition.partitioned is not plan.partitioned:
        # A converter refused an op at its place, or the segments are those of require_full.
        split = partition_facts(program, plan, require_full=options.partition.require_full)
        analysis = replace(analysis, partition=split)
    networks = [one.network for one in converted]
    with clock("profile") if options.profile_layers else nullcontext():
        told = told_layers(nodes, networks, timed=options.profile_layers)
    built = [
        engine_facts(each.manifest, len(each.blob), one, layers, saved=each.saved)
        for each, one, layers in zip(engines, converted, told, strict=True)
    ] + [engine_facts(node.manifest, node.engine.numel()) for node in earlier]
    analysis = replace(analysis, options=options, profiles=symbol_profiles(program, options.opt))
    analysis = after_compiling(analysis, CompilationFacts(tuple(built), verification, made.notes), clock.stages)
    compiled.report = report = replace(report, analysis=analysis)
    return Compilation(compiled, report, plan, converted, engines, verification, analysis.stages)


def diagnosis_options(options: CompileOptions, target: Target) -> AnalyzeOptions:
    """What to analyze a program for that is compiled with these options."""
    return AnalyzeOptions(
        target=target.version,
        truncate_double=options.truncate_double,
        # What it forbids is refused when engines are planned, with every op that stands against it.
        partition=replace(options.partition, require_full=False),
        precision=options.precision,
        keep_fp32=options.keep_fp32,
        gpu=options.gpu,
    )


def compare(
    report: Report,
    plan: EnginePlan | None,
    converted: Sequence[ConvertedSegment],
    compiled: Callable[..., Any],
    options: CompileOptions,
    limits: VerifyLimits | None = None,
    *,
    engines: EngineRuns | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compare a compiled program with the one that was diagnosed, at every corner of its ranges.

    Args:
        report: The diagnosis of the original.
        plan: What its engines were made of; without it the op at which a difference begins is not looked for.
        converted: Their networks.
        compiled: The compiled program.
        options: What it was compiled with.
        limits: What a point may cost.
        engines: Its engines; their networks by the reference functions where they are not given.
        progress: Called before each set of sizes.
    """
    analysis = report.analysis

    def of_network(index: int, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        return run_network(converted[index].network, inputs)

    def locate(point: Point, flat: Sequence[Any], tolerance: Tolerance) -> Culprit | None:
        if plan is None:
            return None
        run, build = (of_network, None) if engines is None else (engines.run, engines.build)
        flat = inputs_of(analysis.program, flat)
        return first_difference(plan.lowered, converted, run, point, flat, tolerance, build=build)

    def undefined(flat: Sequence[Any]) -> Mapping[int, str]:
        return {} if plan is None else undefined_outputs(plan.lowered, inputs_of(analysis.program, flat))

    def ties(
        flat: Sequence[Any], outputs: Sequence[OutputError], actual: Sequence[Any], tolerance: Tolerance
    ) -> Sequence[OutputError]:
        if plan is None:
            return outputs
        return judged_ties(plan.lowered, inputs_of(analysis.program, flat), outputs, actual, tolerance)

    volumes = []
    if analysis.shapes is not None:
        tensors = [tensor for found in analysis.shapes.tensors.values() for tensor in found]
        volumes = [mul(1, *(dim.expr for dim in tensor.dims)) for tensor in tensors]
    return verify(
        beside(analysis.program, compiled),
        compiled,
        analysis.dims.given(),
        precision=options.precision,
        limits=limits,
        elements=elements_of(volumes) if volumes else None,
        locate=locate,
        undefined=undefined,
        ties=ties,
        progress=progress,
    )


def _built(
    plan: EnginePlan,
    converted: Sequence[ConvertedSegment],
    *,
    backend: Backend,
    report: Report,
    progress: Progress,
    kept: Mapping[int, Engine],
) -> tuple[Engine, ...]:
    """The engine of each segment, but for those that are there already, by the ``id`` of their segment."""
    opt = opt_sizes(report.analysis.program, plan.source.ranges, plan.options.opt)
    missing = [one for one in converted if id(one) not in kept]
    wanted = [(one.network, network_profile(one.network, opt)) for one in missing]
    try:
        engines = build_engines(backend, wanted, plan.options, plan.target, progress)
    except EngineBuildError as error:
        error.engine = next(i for i, one in enumerate(converted) if one is missing[error.engine])
        raise
    built = {**kept, **{id(one): engine for one, engine in zip(missing, engines, strict=True)}}
    return tuple(built[id(one)] for one in converted)


def _part(plan: EnginePlan, network: Network, *, backend: Backend, report: Report, progress: Progress) -> None:
    """Build a part of an engine that is refused, for the same sizes: it is looked at once, and not kept."""
    progress(f"TensorRT refuses an engine: building a part of it, {len(network.layers):,} layers")
    opt = opt_sizes(report.analysis.program, plan.source.ranges, plan.options.opt)
    options = replace(plan.options, engine_cache=None)
    build_engine(backend, network, network_profile(network, opt), options, plan.target)


def _refuse_cache_over_source(source: Source, options: CompileOptions) -> None:
    file = _file(source)
    caches = {"timing_cache": options.timing_cache, "runtime_cache": options.runtime_cache}
    written = [Named(name, str(Path(cache).expanduser())) for name, cache in caches.items() if cache is not None]
    if file is not None and written:
        refuse_same([Named("the source", file)], written)


def _file(source: Source) -> str | None:
    """The file that a program comes from, to compare with it later."""
    if isinstance(source, (str, os.PathLike)) and os.path.exists(source):
        return os.path.abspath(source)
    return None
