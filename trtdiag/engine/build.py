"""A network to an engine with its manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from trtdiag import __version__
from trtdiag.engine.backend import Backend, BuiltBy, Profile
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.data_dependent_dims import counted_dims
from trtdiag.engine.engine_bytes import Blob, sha256_of
from trtdiag.engine.manifest import Compatibility, EngineInput, EngineProfile, Manifest
from trtdiag.engine.profiles import parts_of, size_value
from trtdiag.engine.saved_engines import SavedEngines, note_built
from trtdiag.errors import InternalError
from trtdiag.network import Network, canonical_hash
from trtdiag.network.facts import free_symbols_of
from trtdiag.options import CompileOptions
from trtdiag.symbolic import free_symbols
from trtdiag.targets import Target
from trtdiag.timed_steps import timed


@dataclass(frozen=True)
class Engine:
    """An engine: its bytes, which nobody changes, and what they are.

    Attributes:
        blob: The bytes.
        manifest: What they are.
        saved: Whether they came from the engine cache; ``None`` where there is none.
        notes: What it does not do as its network says, in words.
    """

    blob: Blob
    manifest: Manifest
    saved: bool | None = None
    notes: tuple[str, ...] = ()


def build_engine(
    backend: Backend,
    network: Network,
    profile: Profile,
    options: CompileOptions,
    target: Target,
    watch: Watch | None = None,
) -> Engine:
    """The engine of a network, from the engine cache of the options where it is there.

    Args:
        backend: Builds it.
        network: An input without dims whose value is known as an expression is a size.
        profile: The sizes to build for, of every input.
        options: What the user asked for.
        target: The TensorRT version that the network was written for.
        watch: Is told how far the build is.

    Raises:
        EngineBuildError: The backend refuses the network.
        UserError: ``engine-cache-folder``; an option that the backend does not have.
        InternalError: ``engine-profile`` where the profile does not fit the network.
    """
    _inputs(network, profile)  # a profile that does not fit is a fault of before the build
    network_hash = canonical_hash(network)
    saved, key, found = None, "", None
    if options.engine_cache is not None:
        saved = SavedEngines.at(options.engine_cache, options.engine_cache_mib)
        key = engine_key(backend, network, network_hash, profile, options, target)
        found = saved.find(key)
    blob: Blob
    if found is not None:
        blob, notes = found
    else:
        watch = watch or Watch()
        with timed("build", f"build {len(network.layers):,} layers", backend=backend.name, layers=len(network.layers)):
            builders = getattr(backend, "builders", None)  # a backend may be anybody's class
            blob = (builders or backend).build(network, profile, options, target, watch)
        notes = tuple(watch.notes)
        if saved is not None:
            saved.keep(key, blob, notes)
    made = described(blob, backend, backend.device, network, profile, options, target)
    return replace(made, saved=None if saved is None else found is not None, notes=notes)


def described(
    blob: Blob,
    backend: Backend,
    device: str,
    network: Network,
    profile: Profile,
    options: CompileOptions,
    target: Target,
) -> Engine:
    """The engine of these bytes.

    Args:
        blob: What was built.
        backend: Runs it.
        device: The type of device that it runs on.
        network: What it computes.
        profile: The sizes that it was built for.
        options: What the user asked for.
        target: The TensorRT version that the network was written for.

    Raises:
        InternalError: ``engine-profile`` where the profile does not fit the network.
    """
    inputs = _inputs(network, profile)
    by, digest = backend.built_by(), sha256_of(blob)
    note_built(digest)
    read = [expr for port in inputs for expr in (port.dims if port.value is None else (port.value,))]
    given = free_symbols_of(read)
    outputs, counts, counted = counted_dims(network, given)
    ranges = {name: range_ for name, range_ in network.ranges.items() if name in given}
    return Engine(
        blob,
        Manifest(
            trtdiag=__version__,
            backend=backend.name,
            target=target.version,
            device=device,
            network_hash=canonical_hash(network),
            engine_sha256=digest,
            inputs=inputs,
            outputs=outputs,
            ranges={**ranges, **counted},
            conditions=tuple(c for c in network.given if free_symbols(c) <= given | counts.keys()),
            counts=counts,
            waits=bool(network.counts),
            tensorrt=by.tensorrt,
            gpu=by.gpu,
            compatibility=_compatibility(by, options),
            profiles=_profiles(network, profile),
        ),
    )


def _compatibility(by: BuiltBy, options: CompileOptions) -> Compatibility:
    """Where the engine may run: what needs no TensorRT has nothing to be compatible with."""
    if by.tensorrt is None:
        return Compatibility()
    return Compatibility(options.hardware_compatibility, options.version_compatible, by.compute_capability, options.gpu)


def _profiles(network: Network, profile: Profile) -> tuple[EngineProfile, ...]:
    """Each profile, where there are several."""
    parts = parts_of(profile)
    if len(parts) == 1:
        return ()
    return tuple(EngineProfile(name, tuple(own[port.name] for port in network.inputs)) for name, own in parts)


def _inputs(network: Network, profile: Profile) -> tuple[EngineInput, ...]:
    return tuple(_input(port.name, network, index, profile) for index, port in enumerate(network.inputs))


def _input(name: str, network: Network, index: int, profile: Profile) -> EngineInput:
    tensor = network.input_types[index]
    value = size_value(tensor)
    dims = profile.get(name)
    expected = 1 if value is not None else tensor.rank
    if dims is None or len(dims) != expected:
        raise InternalError(
            f"the engine's input {name!r} has no profile",
            because=f"it needs {expected} entries; there are {'none' if dims is None else len(dims)}",
            fix="please report this with the program",
            reference="engine-profile",
        )
    return EngineInput(name, tensor.dtype.torch, tensor.shape, dims, value)


# What decides over an engine's bytes, as one text: engines of equal texts can stand in for each other.


def engine_key(
    backend: Backend, network: Network, network_hash: str, profile: Profile, options: CompileOptions, target: Target
) -> str:
    """What decides over the engine of a network, as a JSON text.

    Beside what the network computes these are the names that an engine holds: its inputs and outputs are addressed by
    them, and what TensorRT tells of its layers leads back to ops through them.  Source lines are not among them, so
    that an edit above an op builds nothing again.
    """
    by = backend.built_by()
    parts = [own for _, own in parts_of(profile)]
    about: Mapping[str, object] = {
        "trtdiag": __version__,
        "code": _code(),
        "backend": backend.name,
        "target": target.version,
        "tensorrt": by.tensorrt,
        "gpu": by.gpu,
        "compute_capability": by.compute_capability,
        "network": network_hash,
        "names": _names(network),
        "profile": _sizes(network, profile) if len(parts) == 1 else [_sizes(network, own) for own in parts],
        "backend_facts": backend.decisive(network, options),
    }
    return json.dumps(about, sort_keys=True, separators=(",", ":"))


def _sizes(network: Network, profile: Profile) -> list[list[list[int | None]]]:
    return [[[size.min, size.opt, size.max] for size in profile.get(port.name, ())] for port in network.inputs]


def _names(network: Network) -> str:
    """A digest of the names of inputs, outputs and sizes, and of the op and node of each layer."""
    names: Sequence[object] = (
        [port.name for port in network.inputs],
        [port.name for port in network.outputs],
        [str(tensor) for tensor in network.input_types],
        [[placed.origin.op, placed.origin.node] for placed in network.layers],
    )
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


@lru_cache(maxsize=1)
def _code() -> str:
    """A digest of the code that writes engines: between two releases it changes while the version does not."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
