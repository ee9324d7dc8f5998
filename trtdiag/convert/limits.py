"""Limits that no converter states: random numbers, and tensors with more elements than the target's can have."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch.fx import Node

from trtdiag.convert.writer import Writer
from trtdiag.graph.limit import Limit
from trtdiag.graph.operators import named_arguments, operator_of, target_name
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.value import Value
from trtdiag.shapes.op_call import Shape
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import BoundsCache

# What switches the randomness of an op off, by the name of the argument: torch tags the op, not the call.
_SWITCHES = ("train", "training", "dropout_p", "dropout", "p")
_FEW = 2**31 - 1
"""Below it no target refuses a tensor for its size."""


def too_large(write: Writer, known: Sequence[Value], results: Sequence[Value], bounds: BoundsCache) -> Limit | None:
    """Why an op cannot be in an engine at the greatest sizes: it would read or make too large a tensor there.

    The scores of attention are the usual case: PyTorch's kernels never hold them, layers that compose it do.  Where the
    program itself has tensors of that size, the rule SYM205 tells of its ranges, too.

    Args:
        write: What the op was written with.
        known: What the op reads.
        results: Its outputs.
        bounds: Over the ranges of the program; sizes whose greatest value is only estimated refuse nothing.
    """
    target = write.target
    layers = list(write.builder.made_for(results))
    who = "a tensor"
    if target.volume_is_per_layer:
        if not any(isinstance(placed.layer, (Convolution, Deconvolution)) for placed, _ in layers):
            return None  # most layers take more there
        who = "a convolution"
    tensors = [("it reads", value.shape) for value in known]
    tensors += [(f"its {placed.layer.kind} makes", tensor.shape) for placed, tensor in layers]
    for what, sizes in tensors:
        most = _most(sizes, bounds)
        if most <= target.max_volume or not bounds.of(elements(sizes)).exact:
            continue
        shape = " x ".join(str(bounds.of(dim).range.max) for dim in sizes)
        return Limit(
            "too-many-elements",
            f"{what} {shape}, {most:,} elements at the greatest sizes, and {who} of"
            f" {target.name} has at most {target.max_volume:,}",
            "lower the greatest sizes of these dims, or compile one program for each part of the range",
        )
    return None


def _most(shape: Shape, bounds: BoundsCache) -> int:
    """The most elements of a shape; 0 where a size has no end, which is another rule's."""
    ends = [bounds.of(dim).range.max for dim in shape]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends):
        return 0
    # Sizes one by one are known already, mostly, and at their ends they make no less than all of them together.
    most = prod(known)
    return most if most <= _FEW else bounds.of(elements(shape)).range.max or 0


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
        "pass random='engine' (--random engine) to have PyTorch draw first, or leave it: it runs between engines",
    )
