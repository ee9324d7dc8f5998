"""The plan of a whole program: what goes into which engine, with all that was found out on the way."""

from __future__ import annotations

from dataclasses import dataclass

from trtdiag.convert.conversion_context import ConversionContext
from trtdiag.convert.facts import Support
from trtdiag.dtypes.plan_facts import TypePlan
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.options import CompileOptions
from trtdiag.partition.facts import Partitioned
from trtdiag.shapes.opt_sizes import EngineSizes
from trtdiag.targets.target import Target


@dataclass(frozen=True)
class EnginePlan:
    """What goes into which engine, and why the rest does not.

    Attributes:
        lowered: The program as it is converted.
        types: The engine dtype of every tensor.
        source: What conversion reads.
        support: Which ops converters take.
        partitioned: Segments and what is left.
        options: As asked.
        target: What for.
        sizes: The sizes of symbols that engines are built for.
    """

    lowered: Lowered
    types: TypePlan
    source: ConversionContext
    support: Support
    partitioned: Partitioned
    options: CompileOptions
    target: Target
    sizes: EngineSizes
