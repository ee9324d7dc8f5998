"""What is planned for one tensor: its engine dtype, or what stands against one."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trtdiag.graph.limit import Limit
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
