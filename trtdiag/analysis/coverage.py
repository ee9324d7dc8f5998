"""Where each op of a program runs, and what a program holds that is no work: asserts, no-ops, sizes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.graph.node_kinds import NodeKind, walk
from trtdiag.graph.operators import target_name
from trtdiag.lower.facts import Checked

_NO_WORK = (NodeKind.NO_OP, NodeKind.ASSERT, NodeKind.SHAPE)


@dataclass(frozen=True)
class OpCoverage:
    """The calls of one op in the lowered graph.

    Attributes:
        op: What is called (``aten.add.Tensor``).
        in_engines: How many calls are in engines.
        in_pytorch: How many PyTorch runs.
        idle: How many yield nothing that the program needs.
        reasons: Why calls are not in engines: the code of the limit, in words, and how many, the most frequent first.
    """

    op: str
    in_engines: int
    in_pytorch: int
    idle: int
    reasons: tuple[tuple[str, str, int], ...]

    @property
    def calls(self) -> int:
        """All of them."""
        return self.in_engines + self.in_pytorch + self.idle


@dataclass(frozen=True)
class NoWork:
    """Calls of the exported graph that need no engine and no PyTorch op: ``kind`` is of those of `NodeKind`."""

    kind: NodeKind
    op: str
    calls: int


def op_coverage(facts: PartitionFacts) -> tuple[OpCoverage, ...]:
    """Every op of the lowered graph: those with most calls in PyTorch first, then the most frequent.

    Cost: linear in ops.
    """
    inside = {name for segment in facts.partitioned.segments for name in segment.ops}
    engines: Counter[str] = Counter()
    for op in facts.partitioned.plan.graph.ops:
        engines[op.target] += op.name in inside
    left: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    reasons: dict[str, Counter[tuple[str, str]]] = {}
    for fallback in facts.partitioned.fallback:
        (left if fallback.computes else idle)[fallback.op] += 1
        if fallback.computes:
            reasons.setdefault(fallback.op, Counter())[fallback.limit.code, fallback.limit.why] += 1
    why = {op: tuple((*reason, times) for reason, times in found.most_common()) for op, found in reasons.items()}
    found = [OpCoverage(op, count, left[op], idle[op], why.get(op, ())) for op, count in engines.items()]
    return tuple(sorted(found, key=lambda each: (-each.in_pytorch, -each.calls, each.op)))


def no_work(checked: Checked) -> tuple[NoWork, ...]:
    """The asserts, no-ops and computations of sizes of the exported graph, by op, the most frequent first."""
    counts = Counter((at.kind, target_name(at.node.target)) for at in walk(checked.graph_module) if at.kind in _NO_WORK)
    found = [NoWork(kind, op, calls) for (kind, op), calls in counts.items()]
    return tuple(sorted(found, key=lambda each: (_NO_WORK.index(each.kind), -each.calls, each.op)))
