"""``analyze``: from a source to its facts and findings."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from trtdiag import __version__
from trtdiag.analysis.fallbacks import PartitionFacts, partition_facts
from trtdiag.analysis.not_checked import NO_WEIGHTS, NOTHING_RUN, engines_not_checked
from trtdiag.analysis.registry import check_selectors, rules
from trtdiag.analysis.result import Analysis
from trtdiag.analysis.run import RuleRun, run
from trtdiag.analysis.tried_builds import TriedBuilds
from trtdiag.analysis.unused_entries import entry_warnings
from trtdiag.arguments import checked, flag, function, instance, optional
from trtdiag.converter_packages import failures
from trtdiag.dims.system import dim_system
from trtdiag.dtypes.census import dtype_facts, without_pairs
from trtdiag.frontend.bounds_checked_run import BeyondTensorsError
from trtdiag.frontend.capture import Source, captured, unchanged
from trtdiag.frontend.module_inputs import Inputs
from trtdiag.frontend.program import Program
from trtdiag.frontend.quick_sizes import quick_sizes
from trtdiag.frontend.resolve_source import resolve_source
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.graph.garbage_collection import uncollected
from trtdiag.graph.node_kinds import NodeKind, walk
from trtdiag.graph.values import NodeReader
from trtdiag.grouping import grouped
from trtdiag.lower.facts import Checked
from trtdiag.lower.metadata import check_metadata
from trtdiag.option_keywords import AnalyzeKeywords, shows_options
from trtdiag.option_warnings import warn_of, without_effect
from trtdiag.options import AnalyzeOptions, CompileOptions, Progress, of_kind, with_changes
from trtdiag.pipeline.plan_engines import plan_engines
from trtdiag.pipeline.stages import DIAGNOSIS, PLANNING, Clock
from trtdiag.report.report import Report
from trtdiag.shapes.bounded import bounded
from trtdiag.shapes.memory import memory_estimate
from trtdiag.shapes.opt_sizes import EngineSizes
from trtdiag.shapes.ranges import shape_facts
from trtdiag.shapes.symbols import symbol_table
from trtdiag.symbolic.text import in_words
from trtdiag.targets import Target, chosen_gpus, get_rtx_target, get_target
from trtdiag.wording import listed

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SELDOM = (300_000, 200, 100)
"""New objects before the youngest are collected, and such collections before older ones are."""
_BY_NAME = "give its fields by name: analyze(source, precision='fp16')"


@shows_options(AnalyzeOptions)
@checked(options=optional(instance(AnalyzeOptions, how=_BY_NAME)), meta=flag, progress=optional(function))
def analyze(
    source: Source,
    options: AnalyzeOptions | None = None,
    *,
    inputs: Inputs | None = None,
    meta: bool = False,
    progress: Progress | None = None,
    **changes: Unpack[AnalyzeKeywords],
) -> Report:
    """Analyse a program and give the report.

    Args:
        source: A ``.pt2``/``.ep`` file, a live ``ExportedProgram``, ``"package.module:factory"`` or
            ``"path/to/file.py:factory"``, a callable that returns ``(module, args, kwargs, dynamic_shapes)``, or such a
            tuple; a folder of Hugging Face, with or without weights, or one that transformers' exporters saved; a
            module, or what names a function or class that gives one, with ``inputs``.
        options: Target and rules; what ``changes`` name counts instead (``target="8.6"``,
            ``keep_in_torch=["aten.softmax"]``).
        inputs: Where ``source`` is a module: what to export it with, in the order of ``forward``'s parameters or by
            name.  Each is an ``Input``, a tensor (an example with fixed sizes), a plain value, or a list, tuple or dict
            of those.  Dims that the model needs equal share one ``Dim`` where the same sizes are asked for.  Beside a
            folder of Hugging Face: in the place of what is usual for such a model.
        meta: Make the model on the meta device, without weights: what depends on their values is then not checked.
        progress: Called with the name of each stage as it begins.
        **changes: Single fields of ``options``, or of its ``partition``, by name.

    Raises:
        CaptureError: The source cannot be read into a program.
        DimsError: ``assume`` or ``max_sizes`` names no size, or leaves none.
        UserError: An option is unknown or wrong, or names no target or rule; no rule is left; ``wrong-argument``.

    Warns:
        OptionWarning: Of each option that has no effect, and each entry of ``keep_in_torch`` and ``keep_fp32`` that
            names nothing.
    """
    chosen = with_changes(options or AnalyzeOptions(), changes)
    # What is built on trial is built of the weights; else they are looked at here and there.
    found = examine(resolve_source(source, inputs, meta=meta), chosen, Clock(progress), whole=chosen.try_build)
    warn_of((*without_effect(chosen), *entry_warnings(found), *failures()))
    return Report(found, rules=rules())


def examine(
    source: Source,
    chosen: AnalyzeOptions,
    clock: Clock,
    opt: Sequence[tuple[str, int]] = (),
    *,
    whole: bool = True,
    prepared: Callable[[Program], Program] | None = None,
) -> Analysis:
    """``analyze`` without its warnings, for stages that give their own; raises the same.

    Args:
        source: As for ``analyze``.
        chosen: Target and rules.
        clock: Runs the stages.
        opt: Sizes that engines are going to be tuned for, by the name of a dim.
        whole: Whether all weights of a file are read once to verify them.
        prepared: Makes of the captured program the one to examine.
    """
    target = _target(chosen)
    check_selectors(chosen.select, chosen.ignore)
    with TORCH_TURN, quick_sizes():
        with clock("capture"), _few_collections():
            program = bounded(captured(source, clock.progress, whole=whole), chosen.assume, chosen.max_sizes)
        _note_failure(program, clock)
        program = program if prepared is None else prepared(program)
        with uncollected():
            facts = _with_findings(_facts(program, target, chosen, clock, opt), target, chosen, clock)
    unchanged(program)
    return facts


def diagnosis_options(options: CompileOptions, target: Target) -> AnalyzeOptions:
    """What to analyze a program for that is compiled with these options."""
    # What require_full forbids is refused when engines are planned, with every op that stands against it.
    shown = replace(options.partition, require_full=False)
    return of_kind(AnalyzeOptions, options, target=target.version, partition=shown)


def _target(options: AnalyzeOptions) -> Target:
    if not options.try_build:
        target = get_target(options.target)
        return target.on(chosen_gpus(target, options.gpu))
    target = get_rtx_target(options.target)
    builder = target if target.gpus else get_rtx_target(None)  # a TensorRT: its networks are built for these GPUs
    gpus = chosen_gpus(builder, options.gpu)
    return target.on(gpus) if target is builder else target


@contextmanager
def _few_collections() -> Iterator[None]:
    """Collect cyclic garbage less often: an export keeps most of the objects that it makes.

    That of a Llama with 32 layers takes about a tenth less, at the same peak of memory.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _facts(
    program: Program, target: Target, chosen: AnalyzeOptions, clock: Clock, opt: Sequence[tuple[str, int]]
) -> Analysis:
    """All that the stages find out; without a graph no more than what its guards say."""
    if program.exported is None:
        clock.skip(DIAGNOSIS[1:4], "there is no graph: the export failed")
        with clock("dims"):
            dims = dim_system(program)
        clock.skip((*DIAGNOSIS[5:], *PLANNING), "there is no graph: the export failed")
        return Analysis(program, dims, target.version, __version__, options=chosen)
    with clock("metadata"):
        checked = check_metadata(program)
    reader = NodeReader()
    with clock("symbols"):
        symbols = symbol_table(program, checked, reader)
    with clock("shapes"):
        shapes = shape_facts(program, checked, program.ranges, reader)
    with clock("dims"):
        dims = dim_system(program.unassumed)  # what is proven rests on nothing that was assumed
        sizes = EngineSizes(program, opt)
        profiles = sizes.profiles()
    with clock("memory"):
        memory = memory_estimate(program, checked, shapes, {name: found.opt for name, found in profiles.items()})
    with clock("dtypes"):
        dtypes = dtype_facts(program, checked, shapes, target)
    facts = Analysis(program, dims, target.version, __version__, checked, symbols, shapes, memory, dtypes)
    facts = replace(facts, options=chosen, op_nodes=_op_nodes(checked), profiles=profiles)
    partition = _planned(facts, checked, target, chosen, clock, sizes)
    tried = _tried(facts, partition, chosen, clock) if chosen.try_build else None
    if partition is not None:
        facts = replace(facts, dtypes=without_pairs(dtypes, checked, partition.plan.lowered))
    return replace(facts, partition=partition, tried=tried)


def _planned(
    facts: Analysis, checked: Checked, target: Target, chosen: AnalyzeOptions, clock: Clock, sizes: EngineSizes
) -> PartitionFacts | None:
    """Plan engines; a fault of ours there is told as a failed stage, and the rest of the analysis stands."""
    asked = chosen.partition
    # What does not fit is a finding here; under require_full segments of any size stay.
    shown = replace(asked, require_full=False, min_segment_ops=0) if asked.require_full else asked
    options = of_kind(CompileOptions, chosen, partition=shown)
    begun = len(clock.stages)
    try:
        plan = plan_engines(facts.program, checked, facts.dims, target, options, clock, sizes, facts.dtypes)
        with clock("fallbacks"):
            return partition_facts(facts.program, plan, require_full=asked.require_full)
    except BeyondTensorsError:
        raise
    except Exception as fault:  # whatever it is, it is no fault of the model, whose findings must not be lost
        ended = [stage.name for stage in clock.stages[begun:] if stage.state == "ok"]
        failed = PLANNING[len(ended)]
        clock.blame(failed, fault)
        clock.skip(PLANNING[len(ended) + 1 :], f"{failed} failed with {type(fault).__name__}")
        return None


def _tried(facts: Analysis, engines: PartitionFacts | None, chosen: AnalyzeOptions, clock: Clock) -> TriedBuilds | None:
    """What the real builder says of the planned engines; ``None`` where they could not be planned.

    Raises:
        PlatformError: It is not installed, or is another release than the target.
    """
    # Of no use without the builder, and half a second to import.
    from trtdiag.pipeline.try_build import try_builds

    if engines is None:
        clock.skip(("try build",), "the engines could not be planned")
        return None
    with clock("try build"):
        return try_builds(facts, engines.plan, chosen.gpu, clock.progress, chosen.build_limit_s)


def _note_failure(program: Program, clock: Clock) -> None:
    if program.failure is None:
        return
    message = program.failure.message.strip().splitlines()
    told = f"{program.failure.error_type}: {message[0]}" if message else program.failure.error_type
    told = in_words(told, program.words)
    if program.failure.relaxed:
        told = f"{told.rstrip('.')}; analysed from a relaxed export ({program.failure.relaxed})"
    clock.note("capture", told, "failed")


def _with_findings(facts: Analysis, target: Target, chosen: AnalyzeOptions, clock: Clock) -> Analysis:
    with clock("rules"):
        every = (*vars(facts).values(), target)
        ran = run({type(each): each for each in every}, select=chosen.select, ignore=chosen.ignore)
    told = tuple(in_words(text, facts.program.words) for text in _not_checked(facts, ran))
    return replace(facts, findings=ran.findings, stages=tuple(clock.stages), not_checked=told)


def _not_checked(facts: Analysis, ran: RuleRun) -> Iterator[str]:
    yield from engines_not_checked(facts.tried)
    yield NOTHING_RUN
    exported = facts.program.exported
    if exported is not None and any(weight.is_meta for weight in exported.state_dict.values()):
        yield NO_WEIGHTS
    for unused in entry_warnings(facts):
        yield f"{unused.option} {unused.value}: {unused.why}"
    yield from map(str, failures())
    for why, ids in grouped((_not_run_words(item.reason), item.rule) for item in ran.not_run).items():
        yield f"{f'rule {ids[0]}' if len(ids) == 1 else f'{len(ids)} rules ({listed(ids)})'}: {why}"
    if facts.checked is not None and facts.checked.unchecked:
        for why, nodes in grouped((why, node) for node, why in facts.checked.unchecked.items()).items():
            more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
            yield f"recorded value of {', '.join(nodes[:3])}{more} against its op: {why}"
    yield from facts.program.notes


def _not_run_words(reason: str) -> str:
    """Why a rule was not run, with all facts that are missing as one reason."""
    return "what they look at could not be worked out" if reason.startswith("needs ") else reason


def _op_nodes(checked: Checked) -> int:
    without = (NodeKind.PLACEHOLDER, NodeKind.ATTRIBUTE, NodeKind.SUBGRAPH, NodeKind.OUTPUT)
    return sum(located.kind not in without for located in walk(checked.graph_module))
