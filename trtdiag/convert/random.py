"""Ops that draw random numbers: an engine would draw once, when it is built."""

from __future__ import annotations

import torch

from trtdiag.graph.limit import Limit
from trtdiag.graph.operators import OpOverload, target_name


def random_limit(op: OpOverload) -> Limit | None:
    """Why a random op stays with PyTorch; ``None`` for every other op.

    torch tags an op as seeded where equal inputs give other outputs on the next call.
    """
    if torch.Tag.nondeterministic_seeded not in op.tags:
        return None
    return Limit(
        "random",
        f"{target_name(op)} draws random numbers, and an engine would draw them once, when it is built",
        "draw outside of the model and hand the numbers in, or leave it: PyTorch runs it between engines",
    )
