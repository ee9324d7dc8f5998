"""The facts of the precision pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trtdiag.options import Precision

if TYPE_CHECKING:
    from trtdiag.lower.lowered_facts import LoweringLimit


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
    stays: tuple[LoweringLimit, ...]
    casts: int
    unmatched: tuple[str, ...]
