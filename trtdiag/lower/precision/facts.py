"""The facts of the precision pass."""

from __future__ import annotations

from dataclasses import dataclass

from trtdiag.frontend.program import OpOrigin
from trtdiag.options import Precision


@dataclass(frozen=True)
class StaysFloat32:
    """An op that computes in float32 although another precision was asked for.

    Attributes:
        node: Its name.
        target: The op.
        reason: Why, one clause.
        origin: Source line and module.
    """

    node: str
    target: str
    reason: str
    origin: OpOrigin


@dataclass(frozen=True)
class PrecisionFacts:
    """What the precision pass did.

    Attributes:
        precision: What was asked for.
        lowered_ops: How many ops compute in it.
        stays: The ops that stay in float32, in graph order.
        casts: How many casts stand in the graph for it.
        unmatched: Entries of ``keep_fp32`` that name nothing in this program.
    """

    precision: Precision
    lowered_ops: int
    stays: tuple[StaysFloat32, ...]
    casts: int
    unmatched: tuple[str, ...]
