"""The ops left to PyTorch, grouped by reason, with what each group costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from trtdiag.analysis.finding import Place
from trtdiag.analysis.places import at_origin
from trtdiag.dims.facts import Constraint, DimSystem, Verdict
from trtdiag.frontend.program import Program
from trtdiag.graph.limit import COMPLEX_VIEW, Limit
from trtdiag.grouping import grouped
from trtdiag.lower.lowered_facts import whole_of
from trtdiag.partition.facts import Bytes, Cause, EnginePlan, Fallback, Partitioned
from trtdiag.partition.intrinsic_limits import COMPILED
from trtdiag.partition.what_if import WhatIf, if_inside, with_minimum

MOST_ASKED = 40
"""Groups whose cost is worked out, those with the most ops first: each takes one more run of the partitioner."""

MINIMUMS = (0, 1, 3, 5, 10, 20)
"""Values of ``min_segment_ops`` to compare: around the default of 5, and those that fold small engines away."""


class Why(Enum):
    """The kinds of reason; the value is the rule that tells of each."""

    NO_CONVERTER = "OPS501"
    LIMIT = "OPS502"
    DATA = "OPS503"
    MUTATION = "OPS504"
    RANDOM = "OPS505"


# A converter and the partitioner may say the same of two calls of one op.
_SAME = {"data-dependent-shape": "data-dependent", "no-operator": "no-converter", COMPLEX_VIEW: "no-counterpart"}
_BY_CODE: Mapping[str, Why] = {
    "no-converter": Why.NO_CONVERTER,
    "data-dependent": Why.DATA,
    "mutation": Why.MUTATION,
    "view-of-written-memory": Why.MUTATION,
    "random": Why.RANDOM,
}
# What says more about the tensors, or about what runs instead, than about the op: one group for all ops.
_OF_TENSORS = frozenset(
    {"double-precision", "no-counterpart", "integer-width", "int64-range", "unbounded-size", "compiled-code-faster"}
)
OUR_FAULT = "converter-failed"
_OF_TORCH = frozenset({"aten", "prims", "prim", "operator", "math", "torch", "higher_order", "quantized_decomposed"})
"""What the names of ops begin with that torch itself has."""


@dataclass(frozen=True)
class LeftOp:
    """One op left to PyTorch: its node in the lowered graph, and its place in the program."""

    node: str
    limit: Limit
    place: Place


@dataclass(frozen=True)
class FallbackGroup:
    """Ops left to PyTorch for one reason.

    Attributes:
        why: The kind of reason.
        code: Of the limits.
        op: The op, or for reasons of tensors the most frequent one.
        other_ops: How many further ops there are, for reasons of tensors.
        left: Every one, in graph order.
        cost: What the partition would be if engines could hold them; ``None`` where it was not worked out.
        crossing: Bytes that cross between engines and these ops.
        crossings: How many tensors that is.
    """

    why: Why
    code: str
    op: str
    other_ops: int
    left: tuple[LeftOp, ...]
    cost: WhatIf | None
    crossing: Bytes
    crossings: int = 0

    @property
    def of_package(self) -> bool:
        """Whether it is an op of a package beside torch, with a kernel of its own."""
        return self.op.partition(".")[0] not in _OF_TORCH and "." in self.op

    @property
    def key(self) -> str:
        """Names the group among all; the cause of its findings."""
        if self.code not in _OF_TENSORS:
            return f"{self.code} {self.op}"
        return " ".join(filter(None, (self.code, self.about)))

    @property
    def identity(self) -> str:
        """Names the group in other exports, too, which number their symbols otherwise."""
        return self.code if self.about else self.key

    @property
    def about(self) -> str:
        """The symbol of the size that they stay for; empty where they stay for something else."""
        return self.left[0].limit.about

    @property
    def named(self) -> tuple[LeftOp, ...]:
        """Those that the reason is about: views of complex tensors stay for the ops beside them, where there are."""
        return tuple(left for left in self.left if left.limit.code != COMPLEX_VIEW) or self.left

    @property
    def engines_saved(self) -> int:
        """How many engines fewer there would be without these fallbacks."""
        return 0 if self.cost is None else max(0, self.cost.segments_before - self.cost.segments_after)

    @property
    def drawn_along(self) -> int:
        """How many other ops would be in engines, too."""
        return 0 if self.cost is None else max(0, self.cost.ops_after - self.cost.ops_before - len(self.left))


@dataclass(frozen=True)
class PartitionFacts:
    """What goes into which engine, and why the rest does not.

    Attributes:
        plan: The plan itself.
        groups: The ops left to PyTorch that compute, by reason, in graph order; not those that the user keeps there,
            nor those whose segment is too small, nor engines of an earlier compilation.
        small: The ops whose segment is too small.
        without_minimum: What would be with no least number of ops; ``None`` where no op is left for that.
        require_full: Whether every op was asked to be in one engine.
        kept: The ops that the user keeps in PyTorch, by op.
        together: What the partition would be if engines could hold all groups whose cost was worked out, kept ones
            among them; ``None`` without such a group.
        joint: The fewest groups without which there would be as few engines as in ``together``, in graph order; several
            where none does it alone, empty where nothing does.
        minimums: What it would be with each of ``MINIMUMS`` and with the one that was asked for, in order.
    """

    plan: EnginePlan
    groups: tuple[FallbackGroup, ...]
    small: tuple[LeftOp, ...]
    without_minimum: WhatIf | None
    require_full: bool
    kept: tuple[FallbackGroup, ...] = ()
    together: WhatIf | None = None
    joint: tuple[FallbackGroup, ...] = ()
    minimums: tuple[tuple[int, WhatIf], ...] = ()

    @property
    def partitioned(self) -> Partitioned:
        """Segments, boundaries and fallbacks."""
        return self.plan.partitioned

    @property
    def ranked(self) -> tuple[FallbackGroup, ...]:
        """The groups that cost engines, those that cost most first."""
        costly = [group for group in self.groups if group.engines_saved]
        return tuple(sorted(costly, key=lambda group: (-group.engines_saved, -group.drawn_along, group.key)))


def partition_facts(program: Program, plan: EnginePlan, *, require_full: bool) -> PartitionFacts:
    """Group the ops left to PyTorch and work out what each group costs.

    Args:
        program: The program: findings name the nodes of its own graph.
        plan: The plan, made without ``require_full``, which would refuse it.
        require_full: Whether the user asked for it.

    Cost: one run of the partitioner, linear in edges, for each of at most ``MOST_ASKED`` groups.
    """
    parts = plan.partitioned
    small = tuple(_left(f, program, plan) for f in parts.fallback if f.cause is Cause.SMALL)
    left = [f for f in parts.fallback if f.computes]
    kept = grouped(((f.limit.code, f.op), f) for f in left if f.cause is Cause.KEPT)
    limited = [f for f in left if f.cause in (Cause.LIMIT, Cause.NATURE) and f.limit is not COMPILED]
    members = grouped((reason_of(f), f) for f in limited)
    every = {**members, **kept}
    asked = sorted(every, key=lambda key: -len(every[key]))[:MOST_ASKED]
    lifted = [fallback.node for key in asked for fallback in every[key]]
    least = sorted({*MINIMUMS, plan.options.partition.min_segment_ops})
    groups, kept_groups = (
        tuple(_group(program, plan, key, found, ask=key in asked) for key, found in found_by.items())
        for found_by in (members, kept)
    )
    together = if_inside(parts, "all of them", frozenset(lifted)) if lifted else None
    return PartitionFacts(
        plan,
        groups,
        small,
        with_minimum(parts, 0) if small else None,
        require_full,
        kept=kept_groups,
        together=together,
        joint=() if together is None else _joint(parts, (*groups, *kept_groups), together),
        minimums=tuple((number, with_minimum(parts, number)) for number in least),
    )


def reason_of(fallback: Fallback) -> tuple[str, str]:
    """What ops that stay for one reason have in common: the code, and the op, or what it is about beside the op."""
    code = _SAME.get(fallback.limit.code, fallback.limit.code)
    return code, fallback.limit.about if code in _OF_TENSORS else fallback.op


def _joint(parts: Partitioned, groups: Sequence[FallbackGroup], together: WhatIf) -> tuple[FallbackGroup, ...]:
    """The fewest groups, by leaving one out after another, that cost as many engines as all of them."""
    if together.segments_after >= together.segments_before:
        return ()
    needed = [group for group in groups if group.cost is not None]
    for group in sorted(needed, key=lambda group: (group.engines_saved, len(group.left))):
        rest = [other for other in needed if other is not group]
        nodes = frozenset(left.node for other in rest for left in other.left)
        if if_inside(parts, "the rest", nodes).segments_after <= together.segments_after:
            needed = rest
    return tuple(needed)


def _group(
    program: Program, plan: EnginePlan, key: tuple[str, str], found: list[Fallback], *, ask: bool
) -> FallbackGroup:
    counts = Counter(fallback.op for fallback in found if fallback.limit.code != COMPLEX_VIEW)
    counts = counts or Counter(fallback.op for fallback in found)
    ((op, _),) = counts.most_common(1)
    nodes = frozenset(fallback.node for fallback in found)
    crossing = _crossing(plan.partitioned, nodes)
    return FallbackGroup(
        _BY_CODE.get(key[0], Why.LIMIT),
        key[0],
        op,
        len(counts) - 1,
        tuple(_left(fallback, program, plan) for fallback in found),
        if_inside(plan.partitioned, op, nodes) if ask else None,
        summed(crossing),
        len(crossing),
    )


def _left(fallback: Fallback, program: Program, plan: EnginePlan) -> LeftOp:
    own = whole_of(fallback.node, program.origins)  # the node in the program's own graph
    place = at_origin(own, plan.lowered.origins.get(fallback.node), fallback.op)
    return LeftOp(fallback.node, fallback.limit, place)


def _crossing(parts: Partitioned, nodes: frozenset[str]) -> list[Bytes]:
    """The bytes of each tensor that crosses between engines and these ops."""
    graph = parts.plan.graph
    touched: set[str] = set()
    for op in graph.ops:
        if op.name in nodes:
            touched.update((op.name, *op.elements), (graph.tensors[read].name for read in op.reads))
    return [
        boundary.bytes
        for boundary in parts.boundaries
        if boundary.tensor in touched and (boundary.producer is not None or boundary.consumers)
    ]


def summed(counts: Iterable[Bytes]) -> Bytes:
    """The sum, at each size; ``None`` where one of them has none."""
    every = list(counts)

    def total(known: list[int | None]) -> int | None:
        return None if None in known else sum(filter(None, known))

    return Bytes(*(total([getattr(each, end) for each in every]) for end in ("min", "opt", "max")))


def asked_of_ops(dims: DimSystem) -> list[Constraint]:
    """The conditions that ops ask for and that can break, in graph order."""
    return [c for c in dims.constraints if c.origin.asked is not None and c.verdict is not Verdict.HOLDS]


def asked_at(dims: DimSystem, nodes: Collection[str | None]) -> Constraint | None:
    """What one of these nodes asks for, where one does: nodes of equal calls stand for each other."""
    return next((constraint for constraint in asked_of_ops(dims) if constraint.origin.node in nodes), None)


def group_of(partition: PartitionFacts | None, node: str | None) -> FallbackGroup | None:
    """The ops left to PyTorch for one reason that a node is among."""
    groups = () if partition is None else partition.groups
    return next((group for group in groups if any(left.place.node == node for left in group.left)), None)
