"""What runs on a GPU runs later than it is asked for: waiting for it, and seeing when the GPU is lost."""

from __future__ import annotations

from typing import Any

import torch

from trtdiag.wording import first_line


def finished(result: Any) -> Any:
    """The result once it is there, or its failure; what was computed on the way is given back, for engines to use."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return result


def lost() -> str:
    """Why the GPU cannot be used any more in this process; empty where it can.

    A kernel that fails, such as one with an index outside of its tensor, ends all that this process does on the GPU.
    """
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return first_line(error, "no reason is given")
    return ""
