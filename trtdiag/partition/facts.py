"""The facts of the partition stage: segments, what crosses between them, the ops left to PyTorch, the whole plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from trtdiag.convert.facts import ConversionContext, Support
from trtdiag.dtypes.plan_facts import TypePlan
from trtdiag.graph.limit import Limit
from trtdiag.graph.segment import LocalSize, Segment
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.options import CompileOptions
from trtdiag.shapes.opt_sizes import EngineSizes
from trtdiag.targets.target import Target

if TYPE_CHECKING:
    from trtdiag.partition.op_graph import Plan


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of a tensor over the declared ranges; ``None`` where a size has no end or no range is known."""

    min: int | None
    opt: int | None
    max: int | None


class Cause(Enum):
    """Who left an op to PyTorch."""

    LIMIT = "limit"  # the caller's limits: the op cannot be converted
    KEPT = "kept"  # the user's keep_in_torch
    NATURE = "nature"  # what the op is: mutation, data-dependent sizes, nested graphs
    SMALL = "small"  # its segment had too few ops


@dataclass(frozen=True, slots=True)
class Fallback:
    """An op that stays with PyTorch.

    Attributes:
        node: Its node.
        op: What it calls, as one writes it (``aten.add.Tensor``).
        cause: Who decided so.
        limit: The reason.
        computes: False for what yields nothing that the program needs (assertions, results that nobody reads); such an
            op does not stand against ``require_full``, and a pure one of them is not run at all.
    """

    node: str
    op: str
    cause: Cause
    limit: Limit
    computes: bool = True


@dataclass(frozen=True, slots=True)
class Boundary:
    """A tensor that crosses from or into an engine.

    Attributes:
        tensor: The node that yields it.
        producer: The segment that makes it, ``None`` for PyTorch and for inputs of the program.
        consumers: The other segments that read it, in order.
        read_by_torch: Whether an op left to PyTorch reads it, or only its shape.
        program_input: Whether it is an input of the program, which crosses in any partition.
        program_output: Whether it is an output of the program.
        bytes: Its size over the declared ranges.
    """

    tensor: str
    producer: int | None
    consumers: tuple[int, ...]
    read_by_torch: bool
    program_input: bool
    program_output: bool
    bytes: Bytes


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the execution: a segment, or ops that PyTorch runs (with their getitem nodes), in order."""

    segment: int | None
    torch_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A program split into segments for engines and the rest.

    Attributes:
        segments: In the order of execution.
        fallback: Every op left to PyTorch, in graph order.
        boundaries: Every tensor that crosses, in graph order.
        steps: The order of execution.
        torch_sizes: The sizes that PyTorch computes: for its own ops, for outputs, and those that enter segments.
        unused_keeps: Entries of ``keep_in_torch`` that name nothing in this program.
        plan: What answers of what would change start from; no fact of its own.
    """

    segments: tuple[Segment, ...]
    fallback: tuple[Fallback, ...]
    boundaries: tuple[Boundary, ...]
    steps: tuple[Step, ...]
    torch_sizes: tuple[LocalSize, ...]
    unused_keeps: tuple[str, ...]
    plan: Plan = field(repr=False, compare=False)


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
