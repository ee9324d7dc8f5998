"""Builds the engines of a compiled program again from their networks, without the model."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trtdiag.arguments import checked, function, instance, optional, path_or, unknown, wrong
from trtdiag.artifact.load import load_anywhere
from trtdiag.engine.backend import Backend, get_backend
from trtdiag.engine.isolated_builds import isolated_builds
from trtdiag.engine.parallel_builds import build_engines
from trtdiag.engine.profiles import built_profile
from trtdiag.errors import ArtifactError
from trtdiag.network import Network, canonical_hash, from_bytes, to_bytes
from trtdiag.option_keywords import EngineKeywords, shows_options
from trtdiag.options import CompileOptions, with_changes
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import on_engine_device
from trtdiag.runtime.engine_cache import engine_bytes
from trtdiag.runtime.engine_nodes import EngineNode, engine_nodes
from trtdiag.runtime.replace_engines import with_engines
from trtdiag.targets import Target

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _backend(name: str, value: Any) -> Any:
    """What builds: its name, or what is told by what it can do, and may be anybody's class."""
    if isinstance(value, str):
        return value
    if isinstance(value, type) or not all(hasattr(value, each) for each in ("name", "device", "build", "load")):
        raise wrong(name, value, "the name of a backend", "wrong-argument", fix="give its name, such as 'tensorrt'")
    return value


def _target(name: str, value: Any) -> str | Target:
    if not isinstance(value, (str, Target)):
        raise wrong(name, value, "a version", "wrong-argument", fix="give a version, such as '10.16'")
    return value


@shows_options(CompileOptions, EngineKeywords)
@checked(
    compiled=path_or(CompiledProgram),
    backend=optional(_backend),
    options=optional(instance(CompileOptions)),
    target=optional(_target),
    progress=optional(function),
)
def rebuild(
    compiled: str | os.PathLike[str] | CompiledProgram,
    backend: str | Backend | None = None,
    options: CompileOptions | None = None,
    target: str | Target | None = None,
    *,
    progress: Callable[[str], None] | None = None,
    **changes: Unpack[EngineKeywords],
) -> CompiledProgram:
    """The program with engines that are built here, for the sizes that the old ones were built for.

    Args:
        compiled: A program whose networks were kept (``portable=True``), or whose engines are networks, or its file,
            which need not run here; it stays as it is.
        backend: What builds the engines, as in ``CompileOptions``; the one of ``options`` where not given.  The program
            is moved to its device.
        options: What to build with; what the program was compiled with where not given.
        target: The TensorRT version to build for, ``10.16``; the one that the networks were written for where not
            given.  Another may refuse layers that it does not have.
        progress: Called with each long step as it begins.
        **changes: Single options about building and running engines, by name: ``optimization_level=5``.

    Raises:
        ArtifactError: ``networks-not-kept``; the file is damaged or foreign.
        EngineBuildError: The backend refuses a network.
        PlatformError: The backend cannot be used here, or builds for another version (``engine-target``).
        UserError: ``wrong-argument``, ``unknown-option``, ``wrong-option``, ``unknown-target``, ``unknown-gpu``.
    """
    program = compiled if isinstance(compiled, CompiledProgram) else load_anywhere(compiled)
    exported = program.exported_program
    calls = engine_nodes(exported)
    for name in changes:
        if name not in EngineKeywords.__annotations__:
            raise unknown(name, sorted(EngineKeywords.__annotations__))
    before = options or program.options or CompileOptions()
    named = before.backend if backend is None else backend
    builder = get_backend(named) if named is None or isinstance(named, str) else named
    if options is None and builder.name not in {call.manifest.backend for call in calls}:
        before = replace(before, gpu=())  # another backend may build for none of them
    chosen = with_changes(before, changes)
    if isinstance(target, Target):
        version = target
    else:
        written = {call.manifest.target for call in calls}
        version = builder.target(target or (written.pop() if len(written) == 1 else None))
        chosen = replace(chosen, gpu=builder.chosen_gpus(version, chosen.gpu))
        builder.require(version)
        chosen = replace(chosen, backend=builder.name, target=version.version)
        version = version.on(chosen.gpu)
    begun = time.perf_counter()
    networks = [_network(program, index, call) for index, call in enumerate(calls)]
    profiles = [built_profile(call.manifest) for call in calls]
    with isolated_builds(builder, chosen) as apart:
        engines = build_engines(apart, list(zip(networks, profiles, strict=True)), chosen, version, progress)
    pairs = zip(engines, calls, strict=True)
    manifests = [replace(engine.manifest, assumed=call.manifest.assumed) for engine, call in pairs]
    blobs = [engine.blob for engine in engines]
    made = with_engines(exported, calls, list(zip(blobs, manifests, strict=True)))
    if not builder.cannot_run(chosen.gpu):
        made = on_engine_device(made, builder.device)
    kept = program.networks or (tuple(map(to_bytes, networks)) if chosen.portable else ())
    seconds = time.perf_counter() - begun
    rebuilt = CompiledProgram(made, kept, options=chosen, source=program.source, build_s=seconds)
    rebuilt.refit_plan = program.refit_plan if chosen.refittable else None
    rebuilt.quantizers = program.quantizers
    return rebuilt


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


def _refused(message: str, because: str, reference: str) -> ArtifactError:
    return ArtifactError(
        f"the engines cannot be rebuilt: {message}",
        because=because,
        fix="compile the program again, with portable=True where engines are to be rebuilt later",
        reference=reference,
    )
