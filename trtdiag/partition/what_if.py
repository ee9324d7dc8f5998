"""What supporting an op would change: the same decision again without its limit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from trtdiag.partition.facts import Partitioned
from trtdiag.partition.op_graph import Plan
from trtdiag.partition.partition import decide


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
    wanted = plan.supported()
    before = _counts(plan, wanted)
    for i in lifted:
        wanted[i] = True
    return _answer(op, tuple(plan.graph.ops[i].name for i in lifted), before, _counts(plan, wanted))


def with_minimum(partitioned: Partitioned, least: int) -> WhatIf:
    """Return what would change with another ``min_segment_ops``; 0: if a segment of one op were enough.

    Cost: linear in edges, times the rounds that small segments take.
    """
    plan = partitioned.plan
    wanted = plan.supported()
    other = plan._replace(options=replace(plan.options, min_segment_ops=least))
    return _answer(f"min_segment_ops={least}", (), _counts(plan, wanted), _counts(other, wanted))


def _answer(op: str, nodes: tuple[str, ...], before: tuple[int, int], after: tuple[int, int]) -> WhatIf:
    return WhatIf(op, nodes, before[0], after[0], before[1], after[1])


def _counts(plan: Plan, wanted: Sequence[bool]) -> tuple[int, int]:
    """Return the number of segments, and of ops in them."""
    supported, levels = decide(plan, wanted)
    segments = max((level for level, inside in zip(levels, supported, strict=True) if inside), default=0)
    return segments, sum(supported)
