"""Each op of an engine's network by itself, on what PyTorch gives the op: nothing adds up from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from trtdiag.network.layers.constant import Constant
from trtdiag.network.network import Network


class Difference(NamedTuple):
    """Of one op: how far off its result is, the greatest magnitude of that, and how many elements are unlike."""

    node: str
    op: str
    kind: str
    off: float
    magnitude: float
    unlike: int


def differences(network: Network, values: dict[str, Any], inputs: Sequence[torch.Tensor]) -> list[Difference]:
    """Every op whose result has the shape it has in PyTorch, by the reference functions of its layers.

    Args:
        network: Of the whole program.
        values: PyTorch's of each node (``values_of``).
        inputs: Of the network.
    """
    last = {placed.origin.node: index for index, placed in enumerate(network.layers)}
    live = {port.tensor: tensor for port, tensor in zip(network.inputs, inputs, strict=True)}
    readers = {number: index for index, placed in enumerate(network.layers) for number in placed.inputs}
    found = []
    for index, placed in enumerate(network.layers):
        layer, name = placed.layer, placed.origin.node
        read = [live[number] for number in placed.inputs]
        with torch.no_grad():
            made = layer.reference(*([network.weights[layer.weights]] if isinstance(layer, Constant) else read))
        live |= dict(zip(placed.outputs, made, strict=True))
        value = values.get(name)
        value = value[0] if isinstance(value, (tuple, list)) and layer.kind == "Normalization" else value
        ends = last[name] == index or (layer.kind == "Quantize" and ".quantize_" in placed.origin.op)
        if ends and isinstance(value, torch.Tensor) and value.shape == made[0].shape:
            off = (made[0].double() - value.double()).abs()
            unlike = int((off != 0).sum())
            greatest = float(value.double().abs().max())
            found.append(Difference(name, placed.origin.op, layer.kind, float(off.max()), greatest, unlike))
            live[placed.outputs[0]] = value.to(made[0].dtype)
        for number in {*placed.inputs, *placed.outputs}:
            if readers.get(number, -1) <= index:
                live.pop(number, None)
    return found
