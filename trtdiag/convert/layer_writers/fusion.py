"""What TensorRT compiles into one kernel, where how a thing is written decides it."""

from __future__ import annotations

from trtdiag.convert.writer import Writer
from trtdiag.network import Placed
from trtdiag.network.layers.cast import Cast
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.value import Value

_MOVED = 3
"""Layers between a normalization and what follows: its groups are shaped back, and its dtype is cast back."""


def fuses_only_elementwise(write: Writer, x: Value) -> bool:
    """Whether x comes from a normalization that the target fuses with elementwise layers alone.

    TensorRT 8.6 compiles a Normalization with the products, sums and maxima behind it as one, but leaves an Activation
    to a kernel of its own, which reads and writes the whole tensor once more.
    """
    if "activation-behind-normalization" not in write.target.slow:
        return False
    made = write.builder.producer(x.id)
    for _ in range(_MOVED):
        if made is None or not isinstance(made.layer, (Shuffle, Cast)):
            break
        made = write.builder.producer(made.inputs[0])
    return made is not None and _normalizes(write, made)


def _normalizes(write: Writer, made: Placed) -> bool:
    """Whether the op that a layer was written for has a Normalization among its layers up to this one."""
    waiting, seen = [made], {made.outputs}
    while waiting:
        placed = waiting.pop()
        if isinstance(placed.layer, Normalization):
            return True
        for number in placed.inputs:
            before = write.builder.producer(number)
            if before is not None and before.origin == made.origin and before.outputs not in seen:
                seen.add(before.outputs)
                waiting.append(before)
    return False
