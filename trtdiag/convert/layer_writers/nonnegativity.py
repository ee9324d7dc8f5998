"""Integers that are seen to be nowhere negative, by the layers that made them."""

from __future__ import annotations

from trtdiag.convert.writer import Writer
from trtdiag.network import Placed
from trtdiag.network.layers.cast import Cast, Identity
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.constant import Constant
from trtdiag.network.layers.elementwise import ElementWise, Select
from trtdiag.network.layers.gather import Gather
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.network.layers.reduce import Reduce
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.squeeze import Shape, Squeeze, Unsqueeze
from trtdiag.network.layers.topk import TopK
from trtdiag.network.value import Value

_MOST_LAYERS = 32
"""Own choice: places that were found, sorted, cut and cast on the way are a handful of layers away."""

_PLACES = (NonZero, Shape)
_MOVES = (Shuffle, Squeeze, Unsqueeze, Identity, Gather)  # the first input, elsewhere


def never_negative(write: Writer, index: Value) -> bool:
    """Whether every element of ``index`` is 0 or more whatever the network is given; a doubt is a no."""
    waiting, seen = [index.id], {index.id}
    while waiting:
        number = waiting.pop()
        placed = write.builder.producer(number)
        sources = None if placed is None or len(seen) > _MOST_LAYERS else _decided_by(write, placed, number)
        if sources is None:
            return False
        waiting += [source for source in sources if source not in seen]
        seen.update(sources)
    return True


def _decided_by(write: Writer, placed: Placed, number: int) -> tuple[int, ...] | None:
    """The inputs that must not be negative for an output not to be; ``None`` where that says nothing."""
    layer = placed.layer
    if isinstance(layer, _PLACES) or (isinstance(layer, TopK) and number == placed.outputs[1]):
        return ()
    if isinstance(layer, Constant):
        weight = write.builder.weight(layer)
        return () if not weight.numel() or (not weight.is_floating_point() and int(weight.min()) >= 0) else None
    if isinstance(layer, _MOVES) or (isinstance(layer, Slice) and layer.mode is not SampleMode.FILL):
        return placed.inputs[:1]
    if isinstance(layer, Select):
        return placed.inputs[1:]
    # To fewer bits a number may come out negative: the type plan casts where it has shown that it does not.
    extreme = isinstance(layer, (Reduce, ElementWise)) and layer.op.name in ("MAX", "MIN")
    return placed.inputs if extreme or isinstance(layer, (Cast, Concatenation)) else None
