"""Outputs of a network that are written into the memory of its inputs."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.network.layers.attention import KVCacheUpdate
from trtdiag.network.layers.squeeze import Shape
from trtdiag.network.network import Network, Placed


def written_inputs(network: Network) -> Mapping[int, int]:
    """The input whose memory an output is, by the index of the output.

    Those are the caches of a KVCacheUpdate, each an input that no other layer reads: what reads it beside could see it
    before or after.  A network with another KVCacheUpdate cannot be an engine of TensorRT.
    """
    outputs = [port.tensor for port in network.outputs]
    inputs = {port.tensor: index for index, port in enumerate(network.inputs)}
    return {
        outputs.index(placed.outputs[0]): inputs[placed.inputs[0]]
        for placed in network.layers
        if isinstance(placed.layer, KVCacheUpdate) and why_not_in_place(network, placed) is None
    }


def why_not_in_place(network: Network, placed: Placed) -> str | None:
    """Why the KVCacheUpdate cannot write into the memory of its cache, in words; ``None`` where it can."""
    cache, result = placed.inputs[0], placed.outputs[0]
    outputs = [port.tensor for port in network.outputs]
    if cache not in {port.tensor for port in network.inputs}:
        return "of what is no input of the network"
    if result not in outputs:
        return "whose result is no output of the network"
    # The size of a tensor is the same before and after.
    readers = [other for other in network.layers if cache in other.inputs and not isinstance(other.layer, Shape)]
    if len(readers) > 1 or placed.inputs.count(cache) > 1 or cache in outputs:
        return "of what is read beside it"
    return None
