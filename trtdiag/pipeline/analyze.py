"""The stages in order.  This file alone names all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trtdiag import __version__
from trtdiag.analysis.explain import catalogue
from trtdiag.analysis.fallbacks import PartitionFacts, partition_facts
from trtdiag.analysis.not_checked import NOTHING_RUN, engines_not_checked
from trtdiag.analysis.result import Analysis, StageTiming
from trtdiag.analysis.run import RuleRun, run
from trtdiag.analysis.tried_builds import TriedBuilds
from trtdiag.analysis.unused_entries import unused_entries
from trtdiag.arguments import checked, function, instance, optional
from trtdiag.dims.facts import DimSystem
from trtdiag.dims.system import dim_system
from trtdiag.dtypes.census import dtype_facts
from trtdiag.dtypes.facts import DtypeFacts
from trtdiag.errors import TrtdiagError
from trtdiag.frontend.bounds_checked_run import BeyondTensorsError
from trtdiag.frontend.capture import Source, capture
from trtdiag.frontend.module_inputs import Inputs, module_inputs
from trtdiag.frontend.program import Program
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.graph.walk import NodeKind, walk
from trtdiag.lower.facts import Checked
from trtdiag.lower.metadata import check_metadata
from trtdiag.option_keywords import AnalyzeKeywords, shows_options
from trtdiag.option_warnings import OptionWarning, warn_of, without_effect
from trtdiag.options import AnalyzeOptions, CompileOptions, with_changes
from trtdiag.pipeline.plan_engines import plan_engines
from trtdiag.report.report import Report
from trtdiag.shapes.facts import MemoryEstimate, ShapeFacts, SymbolTable
from trtdiag.shapes.memory import memory_estimate
from trtdiag.shapes.opt_sizes import symbol_profiles
from trtdiag.shapes.profile import DimProfile
from trtdiag.shapes.ranges import shape_facts
from trtdiag.shapes.symbols import symbol_table
from trtdiag.symbolic.text import in_words
from trtdiag.targets.target import Target
from trtdiag.targets.versions import chosen_gpus, get_rtx_target, get_target

if TYPE_CHECKING:
    from typing_extensions import Unpack

Progress = Callable[[str], None]

PLANNING = ("lower", "precision", "types", "support", "partition", "fallbacks")
"""The stages that plan engines."""
_BY_NAME = "give its fields by name: analyze(source, precision='fp16')"


@dataclass
class _Clock:
    """Collects how each stage went."""

    progress: Progress
    stages: list[StageTiming] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.progress(name)
        started = time.perf_counter()
        try:
            yield
        except Exception as fault:
            told = str(fault) if isinstance(fault, TrtdiagError) else f"{type(fault).__name__}: {fault}"
            self.stages.append(StageTiming(name, "failed", time.perf_counter() - started, told))
            raise
        self.stages.append(StageTiming(name, "ok", time.perf_counter() - started))

    def skipped(self, names: tuple[str, ...], why: str) -> None:
        self.stages.extend(StageTiming(name, "not run", 0.0, why) for name in names)


@shows_options(AnalyzeOptions)
@checked(options=optional(instance(AnalyzeOptions, how=_BY_NAME)), progress=optional(function))
def analyze(
    source: Source,
    options: AnalyzeOptions | None = None,
    *,
    inputs: Inputs | None = None,
    progress: Progress | None = None,
    **changes: Unpack[AnalyzeKeywords],
) -> Report:
    """Analyse a program and give the report.

    Args:
        source: A ``.pt2``/``.ep`` file, a live ``ExportedProgram``, ``"package.module:factory"``, a callable that
            returns ``(module, args, kwargs, dynamic_shapes)``, or such a tuple; a module with ``inputs``.
        options: Target and rules; what ``changes`` name counts instead (``target="8.6"``,
            ``keep_in_torch=["aten.softmax"]``).
        inputs: Where ``source`` is a module: what to export it with, in the order of ``forward``'s parameters or by
            name.  Each is an ``Input``, a tensor (an example with fixed sizes), a plain value, or a list, tuple or dict
            of those.  Dims that the model needs equal share one ``Dim`` where the same sizes are asked for.
        progress: Called with the name of each stage as it begins.
        **changes: Single fields of ``options``, or of its ``partition``, by name.

    Raises:
        CaptureError: The source cannot be read into a program.
        UserError: An option is unknown or wrong, or names no target or rule; ``wrong-argument``.

    Warns:
        OptionWarning: Of each option that has no effect, and each entry of ``keep_in_torch`` and ``keep_fp32`` that
            names nothing.
    """
    chosen = with_changes(options or AnalyzeOptions(), changes)
    report = examine(source if inputs is None else module_inputs(source, inputs), chosen, progress=progress)
    warn_of((*without_effect(chosen), *entry_warnings(report.analysis)))
    return report


def entry_warnings(analysis: Analysis) -> tuple[OptionWarning, ...]:
    """A warning for each entry of the options that names no op and no module of the program."""
    return () if analysis.partition is None else tuple(unused_entries(analysis.partition, analysis.checked))


def examine(source: Source, chosen: AnalyzeOptions, *, progress: Progress | None = None) -> Report:
    """``analyze`` without its warnings, for stages that give their own; raises the same."""
    target = _target(chosen)
    clock = _Clock(progress or (lambda _stage: None))
    with TORCH_TURN:
        with clock.stage("capture"):
            program = capture(source, progress=clock.progress)
        _note_failure(program, clock)
        with _uncollected():
            return _examined(program, target, chosen, clock)


def _target(options: AnalyzeOptions) -> Target:
    if not options.try_build:
        target = get_target(options.target)
        return target.on(chosen_gpus(target, options.gpu))
    target = get_rtx_target(options.target)
    builder = target if target.gpus else get_rtx_target(None)  # a TensorRT: its networks are built for these GPUs
    gpus = chosen_gpus(builder, options.gpu)
    return target.on(gpus) if target is builder else target


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leave cyclic garbage alone while a captured program is examined.

    An exported program is a million small objects: every full collection walks all of them, and facts, being values,
    make no cycles.  On 12,000 nodes one collection took longer than any stage.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _examined(program: Program, target: Target, chosen: AnalyzeOptions, clock: _Clock) -> Report:
    if program.exported is None:
        return _without_graph(program, target, chosen, clock)
    with clock.stage("metadata"):
        checked = check_metadata(program)
    with clock.stage("symbols"):
        symbols = symbol_table(program, checked)
    with clock.stage("shapes"):
        shapes = shape_facts(program, checked, program.ranges)
    with clock.stage("memory"):
        memory = memory_estimate(program, checked, shapes)
    with clock.stage("dims"):
        dims = dim_system(program)
        profiles = symbol_profiles(program)
    with clock.stage("dtypes"):
        dtypes = dtype_facts(program, checked, shapes, target)
    engines = _planned(program, checked, dims, target, chosen, clock)
    tried = _tried(program, engines, chosen, clock) if chosen.try_build else None
    facts = _Facts(program, dims, target, checked, symbols, shapes, memory, dtypes, engines, tried)
    return _report(facts, chosen, clock, profiles)


def _planned(
    program: Program, checked: Checked, dims: DimSystem, target: Target, chosen: AnalyzeOptions, clock: _Clock
) -> PartitionFacts | None:
    """Plan engines; a fault of ours there is told as a failed stage, and the rest of the analysis stands."""
    asked = chosen.partition
    # What does not fit is a finding here; under require_full segments of any size stay.
    shown = replace(asked, require_full=False, min_segment_ops=0) if asked.require_full else asked
    options = CompileOptions(
        target=chosen.target,
        precision=chosen.precision,
        keep_fp32=chosen.keep_fp32,
        truncate_double=chosen.truncate_double,
        partition=shown,
    )
    begun = len(clock.stages)
    try:
        plan = plan_engines(program, checked, dims, target, options, clock.stage)
        with clock.stage("fallbacks"):
            return partition_facts(program, plan, require_full=asked.require_full)
    except BeyondTensorsError:
        raise
    except Exception as fault:  # whatever it is, it is no fault of the model, whose findings must not be lost
        failed = clock.stages[-1].name if len(clock.stages) > begun else PLANNING[0]
        clock.skipped(PLANNING[PLANNING.index(failed) + 1 :], f"{failed} failed with {type(fault).__name__}")
        return None


def _tried(
    program: Program, engines: PartitionFacts | None, chosen: AnalyzeOptions, clock: _Clock
) -> TriedBuilds | None:
    """What the real builder says of the planned engines; ``None`` where they could not be planned.

    Raises:
        PlatformError: It is not installed, or is another release than the target.
    """
    # Of no use without the builder, and half a second to import.
    from trtdiag.pipeline.try_build import try_builds

    if engines is None:
        clock.skipped(("try build",), "the engines could not be planned")
        return None
    with clock.stage("try build"):
        return try_builds(program, engines.plan, chosen.gpu, clock.progress, chosen.build_limit_s)


@dataclass(frozen=True)
class _Facts:
    program: Program
    dims: DimSystem
    target: Target
    checked: Checked | None = None
    symbols: SymbolTable | None = None
    shapes: ShapeFacts | None = None
    memory: MemoryEstimate | None = None
    dtypes: DtypeFacts | None = None
    partition: PartitionFacts | None = None
    tried: TriedBuilds | None = None

    def by_type(self) -> dict[type, object]:
        return {type(value): value for value in vars(self).values() if value is not None}


def _note_failure(program: Program, clock: _Clock) -> None:
    if program.failure is None:
        return
    last = clock.stages.pop()
    message = program.failure.message.strip().splitlines()
    told = f"{program.failure.error_type}: {message[0]}" if message else program.failure.error_type
    told = in_words(told, program.names)
    if program.failure.relaxed:
        told = f"{told.rstrip('.')}; analysed from a relaxed export ({program.failure.relaxed})"
    clock.stages.append(StageTiming("capture", "failed", last.seconds, told))


def _without_graph(program: Program, target: Target, options: AnalyzeOptions, clock: _Clock) -> Report:
    clock.skipped(("metadata", "symbols", "shapes", "memory"), "there is no graph: the export failed")
    with clock.stage("dims"):
        dims = dim_system(program)
    clock.skipped(("dtypes", *PLANNING), "there is no graph: the export failed")
    return _report(_Facts(program, dims, target), options, clock)


def _report(
    facts: _Facts, options: AnalyzeOptions, clock: _Clock, profiles: Mapping[str, DimProfile] | None = None
) -> Report:
    with clock.stage("rules"):
        ran = run(facts.by_type(), select=options.select, ignore=options.ignore)
    analysis = Analysis(
        program=facts.program,
        dims=facts.dims,
        checked=facts.checked,
        symbols=facts.symbols,
        shapes=facts.shapes,
        memory=facts.memory,
        dtypes=facts.dtypes,
        findings=ran.findings,
        stages=tuple(clock.stages),
        not_checked=tuple(in_words(text, facts.program.names) for text in _not_checked(facts, ran)),
        trtdiag_version=__version__,
        target=facts.target.version,
        op_nodes=_op_nodes(facts),
        partition=facts.partition,
        tried=facts.tried,
        options=options,
        profiles=profiles or {},
    )
    return Report(analysis, rules=catalogue())


def _not_checked(facts: _Facts, ran: RuleRun) -> Iterator[str]:
    yield from engines_not_checked(facts.tried)
    yield NOTHING_RUN
    if facts.partition is not None:
        for unused in unused_entries(facts.partition, facts.checked):
            yield f"{unused.option} {unused.value}: {unused.why}"
    for item in ran.not_run:
        yield f"{item.rule}: {item.reason}"
    if facts.checked is not None and facts.checked.unchecked:
        reasons: dict[str, list[str]] = {}
        for node, why in facts.checked.unchecked.items():
            reasons.setdefault(why, []).append(node)
        for why, nodes in reasons.items():
            more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
            yield f"recorded value of {', '.join(nodes[:3])}{more} against its op: {why}"
    yield from facts.program.notes


def _op_nodes(facts: _Facts) -> int:
    if facts.checked is None:
        return 0
    without = (NodeKind.PLACEHOLDER, NodeKind.ATTRIBUTE, NodeKind.SUBGRAPH, NodeKind.OUTPUT)
    return sum(located.kind not in without for located in walk(facts.checked.graph_module))
