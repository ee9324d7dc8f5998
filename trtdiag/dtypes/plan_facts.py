"""The facts of the type plan: what every tensor of a lowered graph is inside an engine, or what stands against one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from trtdiag.dtypes.facts import Role
from trtdiag.graph.limit import Limit
from trtdiag.graph.source import Frame
from trtdiag.wording import dtype_text


@dataclass(frozen=True)
class Planned:
    """The engine dtype of a tensor with its reason, or none.

    Attributes:
        dtype: In an engine; ``None`` where no engine can hold the tensor.
        why: What proves that nothing is lost; where there is no dtype, a clause after "its input x is int64, and ...".
        code: Of the limit, where there is no dtype.
        fix: Of the limit.
    """

    dtype: torch.dtype | None
    why: str = ""
    code: str = ""
    fix: str = ""

    def limit(self, tensor: str, dtype: torch.dtype) -> Limit:
        """Return the limit of an op that touches ``tensor`` (``its input x``)."""
        return Limit(self.code, f"{tensor} is {dtype_text(dtype)}, and {self.why}", self.fix)


def no_counterpart(dtype: torch.dtype, target: str) -> Planned:
    """Return the plan for a dtype that a target (``TensorRT 8.6``) does not have."""
    return Planned(None, f"{target} has no {dtype_text(dtype)}", "no-counterpart", _FIXES.get(dtype, ""))


_FIXES = {
    torch.bfloat16: "convert the model with .float() or .half() before the export, or compile for TensorRT 10 or later",
    torch.uint32: "use int64 or int32",
    torch.uint64: "use int64 or int32",
}


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
