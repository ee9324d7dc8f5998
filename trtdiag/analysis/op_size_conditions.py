"""What ops ask of sizes and the program does not ensure, as findings about ops left to PyTorch look it up."""

from __future__ import annotations

from collections.abc import Collection

from trtdiag.analysis.fallbacks import FallbackGroup, PartitionFacts
from trtdiag.dims.facts import Constraint, DimSystem, Verdict


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
