"""What supporting an op would change: the same decision again without its limit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from trtdiag.partition.facts import Partitioned
from trtdiag.partition.partition import decide
from trtdiag.partition.plan import Plan


@dataclass(frozen=True)
class WhatIf:
    """What the partition would be if an op had no limit.

    Attributes:
        op: The op, or the node, that was asked about.
        nodes: The nodes whose limit was lifted.
        segments_before: Segments now.
        segments_after: Segments then.
        ops_before: Ops in segments now.
        ops_after: Ops in segments then.
    """

    op: str
    nodes: tuple[str, ...]
    segments_before: int
    segments_after: int
    ops_before: int
    ops_after: int


def what_if(partitioned: Partitioned, op: str) -> WhatIf:
    """Return what supporting ``op`` (``aten.nonzero.default``, or one node by name) would change.

    Only the caller's limits are lifted: what the user keeps in PyTorch and what no engine can hold stays there.
    An op without a limit changes nothing.

    Cost: linear in edges; the graph is not read again.
    """
    plan = partitioned.plan
    lifted = [i for i in sorted(plan.limited) if op in (plan.graph.ops[i].name, plan.graph.ops[i].target)]
    return _compare(plan, op, lifted, *_counts(plan, []))


def ranked(partitioned: Partitioned) -> tuple[WhatIf, ...]:
    """Return ``what_if`` of every op that has a limit: those that save the most segments first, then the most ops.

    Each op is looked at alone: two that only help together both rank low.
    """
    plan = partitioned.plan
    by_op: dict[str, list[int]] = {}
    for index in sorted(plan.limited):
        by_op.setdefault(plan.graph.ops[index].target, []).append(index)
    before = _counts(plan, [])
    found = [_compare(plan, op, lifted, *before) for op, lifted in by_op.items()]
    return tuple(sorted(found, key=lambda answer: (answer.segments_after, -answer.ops_after, answer.op)))


def if_inside(partitioned: Partitioned, op: str, nodes: Collection[str]) -> WhatIf:
    """Return what would change if engines could hold these nodes, whatever keeps them out today.

    Beyond ``what_if`` this lifts what no converter could: mutation, sizes from data, nested graphs.  It answers for a
    model without these ops, or with others in their place.

    Args:
        partitioned: The decision to change.
        op: What to call them in the answer.
        nodes: Op nodes of the program.
    """
    plan = partitioned.plan
    lifted = [i for i, made in enumerate(plan.graph.ops) if made.name in nodes]
    freed = frozenset(lifted)
    wanted = [inside or i in freed for i, inside in enumerate(plan.supported())]
    segments, ops = _counts(plan, [])
    segments_after, ops_after = _count(plan, wanted)
    return WhatIf(op, tuple(plan.graph.ops[i].name for i in lifted), segments, segments_after, ops, ops_after)


def without_minimum(partitioned: Partitioned) -> WhatIf:
    """Return what would change if a segment of one op were enough."""
    return with_minimum(partitioned, 0)


def with_minimum(partitioned: Partitioned, least: int) -> WhatIf:
    """Return what would change with another ``min_segment_ops``.

    Cost: linear in edges, times the rounds that small segments take.
    """
    plan = partitioned.plan
    segments, ops = _counts(plan, [])
    other = plan._replace(options=replace(plan.options, min_segment_ops=least))
    segments_after, ops_after = _counts(other, [])
    return WhatIf(f"min_segment_ops={least}", (), segments, segments_after, ops, ops_after)


def _compare(plan: Plan, op: str, lifted: Sequence[int], segments: int, ops: int) -> WhatIf:
    segments_after, ops_after = _counts(plan, lifted)
    return WhatIf(op, tuple(plan.graph.ops[i].name for i in lifted), segments, segments_after, ops, ops_after)


def _counts(plan: Plan, lifted: Sequence[int]) -> tuple[int, int]:
    """Return the number of segments, and of ops in them."""
    return _count(plan, plan.supported(frozenset(lifted)))


def _count(plan: Plan, wanted: Sequence[bool]) -> tuple[int, int]:
    supported, levels = decide(plan, wanted)
    segments = max((level for level, inside in zip(levels, supported, strict=True) if inside), default=0)
    return segments, sum(supported)
