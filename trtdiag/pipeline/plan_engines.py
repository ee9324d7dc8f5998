"""What goes into which engine: lowering, types, support and partition in one go, for analysis and compilation alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from trtdiag.analysis.result import Analysis
from trtdiag.convert.facts import ConversionContext, ConvertedSegment
from trtdiag.convert.registry import has_converter
from trtdiag.convert.segment import SegmentRefused, convert_segment
from trtdiag.convert.support import support
from trtdiag.dims.facts import DimSystem
from trtdiag.dtypes.facts import DtypeFacts
from trtdiag.dtypes.plan import plan_types
from trtdiag.errors import UnsupportedOpError
from trtdiag.frontend.program import Program
from trtdiag.graph.limit import Limit
from trtdiag.graph.values import NodeReader
from trtdiag.lower.facts import Checked
from trtdiag.lower.lowered import lower
from trtdiag.lower.precision.apply import with_precision
from trtdiag.lower.recipes import current_tape, recording
from trtdiag.network import WeightKeys
from trtdiag.options import CompileOptions, Precision
from trtdiag.partition.facts import EnginePlan, Partitioned
from trtdiag.partition.partition import partition, symbol_sizes
from trtdiag.shapes.counts import counted_ranges
from trtdiag.shapes.opt_sizes import EngineSizes
from trtdiag.targets.target import Target

Stage = Callable[[str], AbstractContextManager[None]]
"""Wraps one stage, by name: for progress and time."""
_AT_ONCE: Stage = lambda _name: nullcontext()  # noqa: E731 - a default of two functions

MOST_REPARTITIONS = 50
"""Ops that are taken alone and not at their place, after which something is wrong with more than the ops."""


def plan_engines(
    program: Program,
    checked: Checked,
    dims: DimSystem,
    target: Target,
    options: CompileOptions,
    stage: Stage = _AT_ONCE,
    sizes: EngineSizes | None = None,
    dtypes: DtypeFacts | None = None,
) -> EnginePlan:
    """Return the plan for a program.

    Args:
        program: The program; it has a graph.
        checked: Its graph with complete metadata.
        dims: Its guards: every input that the program takes satisfies them, so conversion may rely on them.
        target: What the engines are for.
        options: Precision, types, partition.
        stage: Wraps each stage.
        sizes: The sizes that engines are built for, where they are at hand.
        dtypes: The dtypes of the program, where they are at hand: what was read of its tensors is not read again.

    Raises:
        UnsupportedOpError: ``require_full``, and an op must stay with PyTorch.
        InternalError: A pass of lowering left the graph out of order.
    """
    with stage("lower"), recording({} if program.exported is None else program.exported.state_dict):
        kept = options.partition.keep_in_torch
        lowered = lower(
            program,
            checked,
            has_converter,
            truncate_double=options.truncate_double,
            in_torch=kept,
            random_outside=options.partition.random == "engine",
        )
    with stage("precision"), recording():
        lowered = with_precision(lowered, options.precision, options.keep_fp32)
    # An engine's profile ends at sizes that the program takes.
    sizes, reader = sizes or EngineSizes(program), NodeReader()
    sizes = sizes.within(counted_ranges(lowered.graph_module.graph, reader, sizes.box))
    with stage("types"):
        types = plan_types(
            lowered,
            sizes.box,
            target,
            truncate_double=options.truncate_double,
            names=program.words,
            constants=None if dtypes is None else dtypes.constants,
        )
    with stage("support"):
        source = ConversionContext(
            lowered.graph_module,
            types.engine,
            target,
            sizes.box,
            dims.given(),
            lowered.origins,
            lowered.held(),
            reader,
            lowered.left(),
            options.precision is not Precision.KEEP,
        )
        found = support(source, types.limits)
    with stage("partition"):
        parts = _partitioned(source, found.limits, program, options)
    return EnginePlan(lowered, types, source, found, parts, options, target, sizes)


def planned(facts: Analysis, options: CompileOptions, target: Target, stage: Stage = _AT_ONCE) -> EnginePlan:
    """The plan of the diagnosis for these options.

    It is made again where it failed there, for the fault is the answer here; where all must be in one engine only the
    partition is.

    Raises:
        UnsupportedOpError: ``require_full``, and an op must stay with PyTorch.
    """
    if facts.partition is None:
        assert facts.checked is not None
        return plan_engines(facts.program, facts.checked, facts.dims, target, options, stage)
    plan = replace(facts.partition.plan, options=options)
    if not options.partition.require_full:
        return plan
    with stage("partition"):
        return without(plan, {})


def convert_segments(plan: EnginePlan) -> tuple[EnginePlan, tuple[ConvertedSegment, ...]]:
    """Return the network of every segment, and the plan that they belong to.

    An op that its converter takes alone and refuses at its place, where a size is not at hand, goes back to PyTorch:
    the program is partitioned again without it.

    Raises:
        UnsupportedOpError: That must not be under ``require_full``, or happens again and again.
    """
    tape = current_tape()
    keys = WeightKeys() if tape is None else WeightKeys(tape.of)
    for _ in range(MOST_REPARTITIONS):
        try:
            with recording():
                return plan, tuple(convert_segment(plan.source, s, keys) for s in plan.partitioned.segments)
        except SegmentRefused as refused:
            plan = without(plan, {refused.node: refused.limit})
    last = [limit.why for limit in plan.support.limits.values()][-1]
    raise UnsupportedOpError(
        "the program does not come apart into segments that can be converted",
        because=f"{MOST_REPARTITIONS} ops were taken back one by one, the last because {last}",
        fix="leave that part of the model to PyTorch with keep_in_torch, and report it with the model",
        reference="segments-not-convertible",
    )


def without(plan: EnginePlan, limits: Mapping[str, Limit]) -> EnginePlan:
    """The plan with further ops left to PyTorch.

    Args:
        plan: What stands now; its options may be others than those that it was made with.
        limits: Why each, by node name.

    Raises:
        UnsupportedOpError: That must not be under ``require_full``.
    """
    limits = {**plan.support.limits, **limits}
    parts = _partitioned(plan.source, limits, plan.sizes.program, plan.options)
    return replace(plan, support=replace(plan.support, limits=limits), partitioned=parts)


def _partitioned(
    source: ConversionContext, limits: Mapping[str, Limit], program: Program, options: CompileOptions
) -> Partitioned:
    return partition(
        source.graph_module,
        limits,
        options.partition,
        symbols=symbol_sizes(program.ranges, program.hints),
        held=[node.name for node in source.held],
        reader=source.reader,
    )
