"""Ops that draw random numbers: an engine would draw once, when it is built."""

from __future__ import annotations

import torch
from torch.fx import Node

from trtdiag.graph.limit import Limit
from trtdiag.graph.operators import named_arguments, operator_of, target_name

# What switches the randomness of an op off, by the name of the argument: torch tags the op, not the call.
_SWITCHES = ("train", "training", "dropout_p", "dropout", "p")


def random_limit(node: Node) -> Limit | None:
    """Why a random op stays with PyTorch; ``None`` for every other op, and for dropout that drops nothing.

    torch tags an op as seeded where equal inputs may give other outputs on the next call.
    """
    op = operator_of(node)
    if op is None or torch.Tag.nondeterministic_seeded not in op.tags:
        return None
    named = named_arguments(node, op)
    if any(name in named and not isinstance(named[name], Node) and not named[name] for name in _SWITCHES):
        return None
    return Limit(
        "random",
        f"{target_name(op)} draws random numbers, and an engine would draw them once, when it is built",
        "draw outside of the model and hand the numbers in, or leave it: PyTorch runs it between engines",
    )
