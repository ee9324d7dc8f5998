"""The facts of the type plan: what every tensor of a lowered graph is inside an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from trtdiag.dtypes.facts import Role
from trtdiag.graph.limit import Limit
from trtdiag.graph.source import Frame


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor that is something else inside an engine, or that no engine can hold.

    Attributes:
        node: The node that yields it.
        role: What it is to the program.
        program_dtype: Its dtype in the program.
        engine_dtype: Its dtype in an engine; ``None`` where it has none.
        why: What proves that nothing is lost, or what stands against it.
        frame: The source line of the op that makes it.
    """

    node: str
    role: Role
    program_dtype: torch.dtype
    engine_dtype: torch.dtype | None
    why: str
    frame: Frame | None


@dataclass(frozen=True)
class TypePlan:
    """The dtypes of a lowered graph inside the engines of one target.

    A value has the same dtype in every engine.  Where that differs from the program's, PyTorch casts when the value
    enters or leaves an engine, and nowhere else.

    Attributes:
        target: Version text of the target.
        engine: For every node of the graph the engine dtype of each tensor that it yields, in order; empty for sizes.
            A tensor that no engine can hold keeps the program's dtype here: every op that touches it has a limit.
        limits: Why an op cannot be in an engine because of types, by the op's node name.
        entries: Every tensor that differs or cannot be held, in graph order, for the report.
    """

    target: str
    engine: Mapping[str, tuple[torch.dtype, ...]]
    limits: Mapping[str, Limit]
    entries: tuple[PlannedTensor, ...]
