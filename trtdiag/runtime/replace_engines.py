"""A compiled program with other engines, or other weights, in the same places; and its engines one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from trtdiag.engine.backend import Backend, Runner, get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.engine_bytes import Blob
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.engine.profiles import built_profile
from trtdiag.frontend.rebuilt_program import copied_graph, rebuilt_program
from trtdiag.graph.fake_values import FakeValues
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.runtime.engine_cache import engine_bytes, engine_tensor
from trtdiag.runtime.engine_nodes import EngineNode
from trtdiag.runtime.execution import unshared
from trtdiag.targets import get_target


def with_engines(
    exported: ExportedProgram,
    calls: Sequence[EngineNode],
    engines: Sequence[tuple[Blob, Manifest]],
    weights: Mapping[str, torch.Tensor] | None = None,
) -> ExportedProgram:
    """A copy of a program with other engines in the place of these.

    Args:
        exported: The program; it stays as it is.
        calls: Its engines that are replaced.
        engines: What replaces them, in the same order.
        weights: Other tensors that ops left to PyTorch read, by their name in the program.
    """
    graph, copies = copied_graph(exported.graph)
    state, constants = dict(exported.state_dict), dict(exported.constants)
    values = FakeValues(exported.graph)
    for call, (blob, manifest) in zip(calls, engines, strict=True):
        content = engine_tensor(blob)
        (state if call.buffer in state else constants)[call.buffer] = content
        made = copies[call.node]
        inputs, placeholder, _ = made.args
        assert isinstance(placeholder, Node)
        placeholder.meta["val"] = values.like(content)
        made.args = (inputs, placeholder, manifest_to_text(manifest))
    for name, tensor in (weights or {}).items():
        place = state if name in state else constants
        before = place[name]
        tensor = tensor.to(before.device)
        if isinstance(before, torch.nn.Parameter):
            tensor = torch.nn.Parameter(tensor, requires_grad=before.requires_grad)
        place[name] = tensor
    signature = replace(exported.graph_signature)
    return rebuilt_program(exported, exported.graph_module, graph, signature, state, constants)


class EngineRuns:
    """Runs and builds engines of a compiled program.

    Args:
        nodes: The calls of its engines, in the order of its segments.
        options: What it was compiled with.

    Attributes:
        builder: What builds engines of its name, in the place of the registry's backend.
    """

    builder: Backend | None = None

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
        backend = self.builder
        if backend is None or backend.name != manifest.backend:
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
