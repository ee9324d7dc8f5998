"""The engines of a compiled program one at a time, and others in their place: what a search for a difference needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from trtdiag.engine.backend import Runner, get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.profiles import built_profile
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.runtime.engine_cache import engine_bytes
from trtdiag.runtime.engine_nodes import EngineNode
from trtdiag.runtime.execution import unshared
from trtdiag.targets import get_target


class EngineRuns:
    """Runs and builds engines of a compiled program.

    Args:
        nodes: The calls of its engines, in the order of its segments.
        options: What it was compiled with.
    """

    def __init__(self, nodes: Sequence[EngineNode], options: CompileOptions) -> None:
        self._nodes = nodes
        self._options = replace(options, engine_cache=None)  # what is built here is looked at once

    def run(self, index: int, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The outputs of the engine of this index."""
        node = self._nodes[index]
        runner = get_backend(node.manifest.backend).load(engine_bytes(node.engine), node.manifest)
        return runner(_on_its_device(node.manifest, inputs))

    def build(self, index: int, network: Network) -> Runner:
        """Another network, built as the engine of this index was: by its backend, for its sizes and target.

        Raises:
            EngineBuildError: The backend refuses the network.
        """
        manifest = self._nodes[index].manifest
        backend = get_backend(manifest.backend)
        engine = build_engine(backend, network, built_profile(manifest), self._options, get_target(manifest.target))
        runner = backend.load(memoryview(engine.blob), engine.manifest)
        return lambda inputs: runner(_on_its_device(manifest, inputs))


def _on_its_device(manifest: Manifest, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Inputs for an engine, which may come from a program that was exported elsewhere; sizes are read on the host.

    What the engine writes to is a copy: the next one is run with the same inputs.
    """
    ports = zip(manifest.inputs, inputs, strict=True)
    there = [tensor.cpu() if port.is_size else tensor.to(manifest.device) for port, tensor in ports]
    return unshared(manifest, there)
