"""Builds the engines of a compiled program again from their networks, without the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.export import ExportedProgram
from torch.fx import Graph, Node

from trtdiag.arguments import checked, instance, wrong
from trtdiag.capture.rebuilt_program import rebuilt_program
from trtdiag.engine.backend import Backend, Profile
from trtdiag.engine.build import Engine
from trtdiag.engine.builds import build_engines
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.errors import ArtifactError
from trtdiag.graph.fake_values import FakeValues
from trtdiag.network import Network, canonical_hash, from_bytes
from trtdiag.options import CompileOptions
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import on_engine_device
from trtdiag.runtime.engine_cache import engine_bytes, engine_tensor
from trtdiag.runtime.engine_nodes import EngineNode, engine_nodes
from trtdiag.targets import Target


def _backend(name: str, value: Any) -> Any:
    """What builds: it is told by what it can do, and may be anybody's class."""
    if isinstance(value, type) or not all(hasattr(value, each) for each in ("name", "device", "build", "load")):
        fix = "give trtdiag.engine.backend.get_backend('tensorrt')"
        raise wrong(name, value, "a backend", "wrong-argument", fix=fix)
    return value


@checked(
    compiled=instance(CompiledProgram, how="make one with trtdiag.compile, or load it with trtdiag.load"),
    backend=_backend,
    options=instance(CompileOptions),
    target=instance(Target, how="give trtdiag.targets.get_target('10.16')"),
)
def rebuild(compiled: CompiledProgram, backend: Backend, options: CompileOptions, target: Target) -> CompiledProgram:
    """The program with engines that ``backend`` builds here, for the profiles that the old ones were built for.

    Args:
        compiled: A program whose networks were kept, or whose engines are networks; it stays as it is.
        backend: Builds the engines; the program is moved to its device.
        options: What to build with.
        target: The TensorRT version to build for; the networks were written for the manifests' one.

    Raises:
        ArtifactError: ``networks-not-kept``.
        EngineBuildError: The backend refuses a network.
        UserError: ``wrong-argument``.
    """
    exported = compiled.exported_program
    calls = engine_nodes(exported)
    wanted = [(_network(compiled, index, call), _profile(call.manifest)) for index, call in enumerate(calls)]
    engines = build_engines(backend, wanted, options, target)
    made = on_engine_device(_with_engines(exported, calls, engines), backend.device)
    return CompiledProgram(made, compiled.networks, options=options)


def _network(compiled: CompiledProgram, index: int, call: EngineNode) -> Network:
    if compiled.networks:
        network = from_bytes(compiled.networks[index])
    elif call.manifest.backend == "reference":
        network = from_bytes(engine_bytes(call.engine))
    else:
        raise _refused(
            f"the network of the engine {call.buffer} was not kept",
            "the program was compiled without portable=True",
            "networks-not-kept",
        )
    if canonical_hash(network) != call.manifest.network_hash:
        raise _refused(
            f"the network of the engine {call.buffer} is another one", "its hash is not the manifest's", "other-network"
        )
    return network


def _profile(manifest: Manifest) -> Profile:
    return {port.name: port.profile for port in manifest.inputs}


def _with_engines(
    exported: ExportedProgram, calls: tuple[EngineNode, ...], engines: Sequence[Engine]
) -> ExportedProgram:
    """A copy of a program with other engines in the same places."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    returned = graph.graph_copy(exported.graph, copies)
    for old, new in copies.items():
        new.name = old.name
    end = next(iter(reversed(exported.graph.nodes)))
    graph.output(returned).meta.update(end.meta)
    state, constants = dict(exported.state_dict), dict(exported.constants)
    values = FakeValues(exported.graph)
    for call, engine in zip(calls, engines, strict=True):
        blob = engine_tensor(engine.blob)
        (state if call.buffer in state else constants)[call.buffer] = blob
        made = copies[call.node]
        inputs, placeholder, _ = made.args
        assert isinstance(placeholder, Node)
        placeholder.meta["val"] = values.like(blob)
        made.args = (inputs, placeholder, manifest_to_text(engine.manifest))
    signature = replace(exported.graph_signature)
    return rebuilt_program(exported, exported.graph_module, graph, signature, state, constants)


def _refused(message: str, because: str, reference: str) -> ArtifactError:
    return ArtifactError(
        f"the engines cannot be rebuilt: {message}",
        because=because,
        fix="compile the program again, with portable=True where engines are to be rebuilt later",
        reference=reference,
    )
