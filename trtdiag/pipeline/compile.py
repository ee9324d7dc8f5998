"""``compile``: diagnose, convert, build, assemble, verify."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trtdiag.analysis.compilation import CompilationFacts
from trtdiag.analysis.fallbacks import partition_facts
from trtdiag.analysis.not_checked import after_compiling
from trtdiag.analysis.unused_entries import entry_warnings
from trtdiag.arguments import checked, function, instance, optional
from trtdiag.calibration.batches import Batches
from trtdiag.calibration.facts import QuantizationFacts
from trtdiag.converter_packages import failures
from trtdiag.engine.backend import get_backend, refuse_as_builder
from trtdiag.engine.isolated_builds import isolated_builds
from trtdiag.errors import DiagnosisError
from trtdiag.files.same_file import Named, refuse_same
from trtdiag.frontend.capture import Source, unchanged
from trtdiag.frontend.module_inputs import Inputs, ModuleInputs
from trtdiag.frontend.resolve_source import resolve_source
from trtdiag.lower.recipes import new_tape
from trtdiag.option_keywords import CompileKeywords, shows_options
from trtdiag.option_warnings import warn_of, without_effect
from trtdiag.options import AUTO, LATENCY, CompileOptions, Progress, with_changes
from trtdiag.pipeline.accuracy_repair import mended
from trtdiag.pipeline.analyze import diagnosis_options, examine
from trtdiag.pipeline.build import Builder, assembled
from trtdiag.pipeline.build_fallback import build_or_yield
from trtdiag.pipeline.compare import compared, engines_of
from trtdiag.pipeline.compile_errors import (
    nothing_to_time,
    refuse_errors,
    refuse_other_weights,
    refuse_without_weights,
    with_proposal,
    without_graph,
)
from trtdiag.pipeline.plan_engines import Stage, convert_segments, planned
from trtdiag.pipeline.quantize import Quantizing
from trtdiag.pipeline.record_refit import own_parameters, refit_plan
from trtdiag.pipeline.stages import Clock, turn
from trtdiag.pipeline.state import State
from trtdiag.report.engine_words import saved_words
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import compiled_device, require_kernels
from trtdiag.runtime.earlier_engines import refuse_on_other_devices
from trtdiag.shapes.size_profiles import profile_notes, size_profiles
from trtdiag.verification.limits import VerifyLimits
from trtdiag.wording import amount

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MADE = ("capture", "convert", "build")
"""The stages of the export and the build."""
_BY_NAME = "give its fields by name: compile(source, precision='fp16')"


@shows_options(CompileOptions)
@checked(options=optional(instance(CompileOptions, how=_BY_NAME)), progress=optional(function))
def compile(
    source: Source,
    options: CompileOptions | None = None,
    *,
    inputs: Inputs | None = None,
    calibrate: Batches | None = None,
    progress: Progress | None = None,
    **changes: Unpack[CompileKeywords],
) -> CompiledProgram:
    """Compile a program: what has a converter runs in engines, the rest in PyTorch, with the reason in the report.

    Args:
        source: As for ``analyze``: a file, a live ``ExportedProgram``, a factory, or what a factory returns; a module
            with ``inputs``.
        options: How; what ``changes`` name counts instead.
        inputs: Where ``source`` is a module, or what names one: what to export it with, as for ``analyze``.  Engines
            are tuned for the ``opt`` of each ``Input``.
        calibrate: With ``precision="int8"``, for a program without quantizers: batches of real inputs, or a file of
            ``torch.save`` with a list of them.  A batch is a tensor, a tuple of arguments, or a dict of them by name.
        progress: Called with the name of each stage as it begins.
        **changes: Single fields of ``options``, or of its ``partition``, by name:
            ``compile(model, precision="fp16", min_segment_ops=1)``.

    Raises:
        CaptureError: The source cannot be read into a program.
        DimsError: ``assume`` or ``max_sizes`` names no size, or leaves none.
        DiagnosisError: It has findings of severity ERROR; ``force=True`` goes on.  ``inputs-refused``: torch.export
            refuses the sizes of ``inputs``; says what fix-dims proposes.
        UnsupportedOpError: ``require_full``, and an op must stay with PyTorch.
        PlatformError: The backend cannot be used here; ``torchao-missing`` where calibrating needs it.
        EngineBuildError: The backend refuses a network.
        UserError: An option is unknown or wrong; ``wrong-argument``; ``calibration-data``, ``int8-without-data`` and
            what else is wrong with what to calibrate with; ``program-devices`` where the program is on
            several devices; ``same-file`` where the timing cache is the source.

    Warns:
        OptionWarning: Of each option that has no effect with this backend, these other options, or this program.
        ConverterWarning: Of each package whose converters could not be imported.
    """
    chosen = with_changes(options or CompileOptions(), changes)
    asked = resolve_source(source, inputs)
    try:
        return compile_in_stages(asked, chosen, progress=progress, calibrate=calibrate).compiled
    except DiagnosisError as error:
        if not isinstance(asked, ModuleInputs):
            raise
        raise with_proposal(error, asked) from error


def compile_in_stages(
    source: Source,
    options: CompileOptions,
    *,
    progress: Progress | None = None,
    limits: VerifyLimits | None = None,
    calibrate: Batches | None = None,
) -> State:
    """``compile`` with everything that was found on the way; raises the same."""
    if options.engine_weights != "inside":
        options = replace(options, refittable=True)
    with new_tape(options.refittable) as tape, ExitStack() as until_compiled:
        clock = Clock(progress)
        quantizing = Quantizing(options, calibrate, clock)
        state = _compiled(source, options, clock, limits, quantizing, until_compiled)
        state.compiled.quantizers = quantizing.quantizers
        if tape is not None:
            plan = refit_plan(tape, state)
            if options.engine_weights != "inside":
                plan = replace(plan, stored=own_parameters(state, plan))
            state.compiled.refit_plan = plan
    return state


def _compiled(
    source: Source,
    options: CompileOptions,
    clock: Clock,
    limits: VerifyLimits | None,
    quantizing: Quantizing,
    until_compiled: ExitStack,
) -> State:
    if isinstance(source, ModuleInputs):
        options = replace(options, opt=(*source.opt, *options.opt))
    _refuse_cache_over_source(source, options)
    if options.backend == AUTO:
        options = replace(options, backend=None, optimize=LATENCY)
    if options.optimize == LATENCY:
        refuse_other_weights(options)
    backend = until_compiled.enter_context(isolated_builds(get_backend(options.backend), options))
    refuse_as_builder(backend)
    target = backend.target(options.target)
    options = replace(options, gpu=backend.chosen_gpus(target, options.gpu))
    backend.require(target)
    target = target.on(options.gpu)
    cannot_run = backend.cannot_run(options.gpu)
    if options.optimize == LATENCY and cannot_run:
        raise nothing_to_time(cannot_run)

    analysis = examine(source, diagnosis_options(options, target), clock, options.opt, prepared=quantizing)
    state = State(analysis)
    warn_of((*without_effect(options, backend.name), *entry_warnings(analysis), *failures(), *quantizing.warnings()))
    refuse_errors(state.report, force=options.force)
    exported = state.program.exported
    if exported is None:
        raise without_graph(state.report)
    refuse_without_weights(exported)
    before = compiled_device(exported)
    refuse_on_other_devices(exported, backend.device)
    moved = before is not None and before.type != backend.device and not cannot_run

    if backend.builders is not None and options.engine_cache is None:
        backend.builders.start()  # it is ready when the first network is
    plan = planned(state.analysis, options, target, clock)
    if options.optimize == LATENCY and options.cuda_graphs is None:
        from trtdiag.pipeline.program_times import cuda_graphs_for_latency  # with what chooses among backends

        graphs = cuda_graphs_for_latency(plan.lowered, backend.device)
        plan = replace(plan, options=replace(options, cuda_graphs=graphs))
    # Looked at now: what is wrong with them is told before anything is built.
    parts = size_profiles(state.program, plan.sizes.box, options.profiles, options.opt)
    with clock("convert"):
        plan, converted = convert_segments(plan)
    state = replace(state, planned=plan, converted=converted)
    builder = Builder(backend, clock.progress, parts)

    def made(state: State, stage: Stage) -> State:
        """With engines built, their program assembled, and that compared."""
        if moved:
            require_kernels(state.plan.lowered, state.plan.partitioned.fallback, backend.device)
        with stage("build"):
            state = build_or_yield(state, builder)
        if backend.builders is not None:
            backend.builders.rest()
        with stage("assemble"):
            state = replace(state, assembled=assembled(state, None if cannot_run else backend.device, _file(source)))
        if not options.verify:
            return state
        with stage("verify"):
            made_s = clock.seconds(*_MADE)
            found = compared(state, options, limits, cannot_run, clock.progress, made_s=made_s)
            return replace(state, verification=found)

    def optimized(state: State) -> State:
        # Only what chooses among backends needs AOTInductor, which takes a while to import.
        from trtdiag.pipeline.latency import fastest

        def verified(other: State) -> State:
            if not options.verify:
                return other
            made_s = clock.seconds(*_MADE)
            found = compared(other, options, limits, "", clock.progress, made_s=made_s)
            return replace(other, verification=found)

        return fastest(state, builder, backend, verified, _file(source))

    state = made(state, clock)
    clock.note("build", saved_words([engine.saved for engine in state.engines]))
    if state.verification is not None and not state.verification.passed and not cannot_run:
        with clock("mend"):
            state = mended(state, partial(made, stage=turn))
    if options.optimize == LATENCY and (state.verification is None or state.verification.passed):
        with clock("optimize"):
            state = optimized(state)
    for file in unchanged(state.program):
        file.drop()  # it was read for engines and comparison; what is saved next is another copy
    if moved:
        note = f"it was exported on {before}, and its engines run on {backend.device}: inputs are taken there now"
        state = replace(state, analysis=state.analysis.noted(note))
    return _told(state, clock, quantizing.facts)


def _told(state: State, clock: Clock, quantization: QuantizationFacts | None) -> State:
    """The state whose analysis says what became of compiling."""
    plan, compiled, facts = state.plan, state.compiled, state.analysis
    options = plan.options
    facts = facts.noted(*_notes(state))
    compiled.build_s = clock.seconds("convert", "build", "mend")
    if facts.partition is not None and facts.partition.partitioned is not plan.partitioned:
        # A converter refused an op at its place, or the segments are those of require_full.
        split = partition_facts(state.program, plan, require_full=options.partition.require_full)
        facts = replace(facts, partition=split)
    with clock("profile") if options.profile_layers else nullcontext():
        engines = engines_of(state, timed=options.profile_layers)
    facts = replace(facts, options=options, profiles=plan.sizes.profiles())
    became = CompilationFacts(engines, state.verification, state.notes, state.optimization, quantization)
    facts = after_compiling(facts, became, clock.stages)
    state = replace(state, analysis=facts)
    compiled.report = state.report
    return state


def _notes(state: State) -> Iterator[str]:
    yield from state.notes
    sizes, asked = state.plan.sizes, state.plan.options
    parts = size_profiles(state.program, sizes.box, asked.profiles, asked.opt)
    yield from profile_notes(state.program, sizes.box, parts)
    for index, each in enumerate(state.engines):
        yield from (f"engine {index}: {note}" for note in (*state.converted[index].notes, *each.notes))
    earlier = state.engine_nodes()[1]
    if earlier:
        stay = "stays as it is" if len(earlier) == 1 else "stay as they are"
        yield f"{amount(len(earlier), 'engine')} of an earlier compilation {stay}"


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
