"""The layers of a compiled program's engines, as far as they can be told."""

from __future__ import annotations

from dataclasses import dataclass

from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.built_layers import Layered, LayerInfo
from trtdiag.errors import TrtdiagError
from trtdiag.network import Network
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.engine_nodes import EngineNode

TIMED_RUNS = 20
"""Own choice: the median of these keeps out a run that something else disturbed."""


@dataclass(frozen=True)
class ToldLayers:
    """The layers of one engine in the order of execution; where there are none, or no times, ``why`` says why."""

    layers: tuple[LayerInfo, ...] = ()
    why: str = ""


def told_layers(node: EngineNode, converted: ConvertedSegment | None, *, timed: bool) -> ToldLayers:
    """The layers of an engine.

    One that was not loaded yet is loaded only to be timed: for a large one that takes seconds and its memory.

    Args:
        node: Its call.
        converted: What it was built from, where that is at hand.
        timed: Whether to run it some times at its usual sizes, which tells the time of each layer.
    """
    if converted is None:
        return ToldLayers(why="the network that it was built from is not at hand")
    manifest, network = node.manifest, converted.network
    try:
        runner = CACHE.get(manifest, node.engine) if timed else CACHE.loaded(manifest)
        if runner is None and manifest.backend == "reference":  # it was dropped; untimed the network says all of it
            return ToldLayers()
        if runner is None:
            return ToldLayers(why="the engine was not loaded, since nothing ran it; profile_layers loads it")
        if not isinstance(runner, Layered):
            return ToldLayers(why=f"the backend {manifest.backend!r} tells none" if timed else "")
        if not timed:
            return ToldLayers(runner.layers(network, 0))
        return _timed(runner, network)
    except TrtdiagError as error:
        return ToldLayers(why=f"{error.message}: {error.because}")


def _timed(runner: Layered, network: Network) -> ToldLayers:
    try:
        return ToldLayers(runner.layers(network, TIMED_RUNS))
    except TrtdiagError as error:  # the program itself is whole
        return ToldLayers(runner.layers(network, 0), f"they could not be timed: {error.message}: {error.because}")
