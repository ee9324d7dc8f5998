"""What goes into which engine: lowering, types, support and partition in one go, for analysis and compilation alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from trtdiag.convert.conversion_context import ConversionContext
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.convert.registry import has_converter
from trtdiag.convert.segment import SegmentRefused, convert_segment
from trtdiag.convert.support import support
from trtdiag.dims.facts import DimSystem
from trtdiag.dtypes.plan import plan_types
from trtdiag.errors import UnsupportedOpError
from trtdiag.frontend.program import Program
from trtdiag.graph.limit import Limit
from trtdiag.graph.values import NodeReader
from trtdiag.lower.facts import Checked
from trtdiag.lower.lowered import lower
from trtdiag.lower.precision.apply import with_precision
from trtdiag.network import WeightKeys
from trtdiag.options import CompileOptions
from trtdiag.partition.engine_plan import EnginePlan
from trtdiag.partition.facts import Partitioned
from trtdiag.partition.partition import partition, symbol_sizes
from trtdiag.shapes.counts import counted_ranges
from trtdiag.shapes.opt_sizes import allowed_box
from trtdiag.targets.target import Target

Stage = Callable[[str], AbstractContextManager[None]]
"""Wraps one stage, by name: for progress and time."""

MOST_REPARTITIONS = 50
"""Ops that are taken alone and not at their place, after which something is wrong with more than the ops."""


def plan_engines(
    program: Program,
    checked: Checked,
    dims: DimSystem,
    target: Target,
    options: CompileOptions,
    stage: Stage = lambda _name: nullcontext(),
) -> EnginePlan:
    """Return the plan for a program.

    Args:
        program: The program; it has a graph.
        checked: Its graph with complete metadata.
        dims: Its guards: every input that the program takes satisfies them, so conversion may rely on them.
        target: What the engines are for.
        options: Precision, types, partition.
        stage: Wraps each stage.

    Raises:
        UnsupportedOpError: ``require_full``, and an op must stay with PyTorch.
        InternalError: A pass of lowering left the graph out of order.
    """
    with stage("lower"):
        lowered = lower(program, checked, has_converter)
    with stage("precision"):
        lowered = with_precision(lowered, options.precision, options.keep_fp32)
    # An engine's profile ends at sizes that the program takes.
    ranges = counted_ranges(lowered.graph_module.graph, NodeReader(), allowed_box(program, program.ranges))
    with stage("types"):
        types = plan_types(lowered, ranges, target, truncate_double=options.truncate_double, names=program.names)
    with stage("support"):
        module, held = lowered.graph_module, lowered.held()
        source = ConversionContext(module, types.engine, target, ranges, dims.given(), lowered.origins, held)
        found = support(source, types.limits, {limit.node: limit.why for limit in lowered.limits})
    with stage("partition"):
        parts = _partitioned(source, found.limits, program, options)
    return EnginePlan(lowered, types, source, found, parts, options, target)


def convert_segments(plan: EnginePlan, program: Program) -> tuple[EnginePlan, tuple[ConvertedSegment, ...]]:
    """Return the network of every segment, and the plan that they belong to.

    An op that its converter takes alone and refuses at its place, where a size is not at hand, goes back to PyTorch:
    the program is partitioned again without it.

    Raises:
        UnsupportedOpError: That must not be under ``require_full``, or happens again and again.
    """
    keys = WeightKeys()
    for _ in range(MOST_REPARTITIONS):
        try:
            return plan, tuple(convert_segment(plan.source, s, keys) for s in plan.partitioned.segments)
        except SegmentRefused as refused:
            plan = without(plan, program, {refused.node: refused.limit})
    raise UnsupportedOpError(
        "the program does not come apart into segments that can be converted",
        because=f"{MOST_REPARTITIONS} ops were taken back one by one, the last because {_last(plan.support.limits)}",
        fix="leave that part of the model to PyTorch with keep_in_torch, and report it with the model",
        reference="segments-not-convertible",
    )


def without(plan: EnginePlan, program: Program, limits: Mapping[str, Limit]) -> EnginePlan:
    """The plan with further ops left to PyTorch.

    Args:
        plan: What stands now.
        program: Its program.
        limits: Why each, by node name.

    Raises:
        UnsupportedOpError: That must not be under ``require_full``.
    """
    limits = {**plan.support.limits, **limits}
    parts = _partitioned(plan.source, limits, program, plan.options)
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


def _last(limits: Mapping[str, Limit]) -> str:
    found: Sequence[Limit] = list(limits.values())
    return found[-1].why if found else "no reason"
