"""Writes KVCacheUpdate."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.kv_cache_update import KVCacheUpdate


@emitter(KVCacheUpdate)
def kv_cache_update(step: Step, layer: KVCacheUpdate) -> Outputs:
    """One layer.

    Both have one memory: "The cache tensor must be a network input", "The output tensor must be a network output",
    tensorrt-rtx 1.4.0.76 and 1.7.1.116.
    """
    network, placed = step.emission.network, step.placed
    given = placed.inputs[0] in {port.tensor for port in network.inputs}
    left = placed.outputs[0] in {port.tensor for port in network.outputs}
    step.require(given, "KVCacheUpdate of what is no input of the network")
    step.require(left, "KVCacheUpdate whose result is no output of the network")
    cache, update, indices = (step.tensor(index) for index in range(3))
    mode = step.dialect.member(layer.mode)
    return step.place(step.definition.add_kv_cache_update(cache, update, indices, mode))
