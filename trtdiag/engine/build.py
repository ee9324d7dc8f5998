"""A network to an engine with its manifest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from trtdiag import __version__
from trtdiag.engine.backend import Backend, Profile
from trtdiag.engine.counted_dims import counted_dims
from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.engine.profiles import size_value
from trtdiag.errors import InternalError
from trtdiag.network import Network, canonical_hash
from trtdiag.options import CompileOptions
from trtdiag.symbolic import Expr, free_symbols
from trtdiag.targets import Target


@dataclass(frozen=True)
class Engine:
    """An engine: its bytes, which nobody changes, and what they are."""

    blob: bytes | bytearray
    manifest: Manifest


def build_engine(
    backend: Backend, network: Network, profile: Profile, options: CompileOptions, target: Target
) -> Engine:
    """The engine of a network.

    Args:
        backend: Builds it.
        network: An input without dims whose value is known as an expression is a size.
        profile: The sizes to build for, of every input.
        options: What the user asked for.
        target: The TensorRT version that the network was written for.

    Raises:
        EngineBuildError: The backend refuses the network.
        InternalError: ``engine-profile`` where the profile does not fit the network.
    """
    inputs = tuple(_input(port.name, network, index, profile) for index, port in enumerate(network.inputs))
    blob = backend.build(network, profile, options, target)
    tensorrt, gpu = backend.built_by()
    given = frozenset().union(*(free_symbols(expr) for port in inputs for expr in _read_off(port)))
    counted = counted_dims(network, given)
    ranges = {name: range_ for name, range_ in network.ranges.items() if name in given}
    return Engine(
        blob,
        Manifest(
            trtdiag=__version__,
            backend=backend.name,
            target=target.version,
            device=backend.device,
            network_hash=canonical_hash(network),
            engine_sha256=hashlib.sha256(blob).hexdigest(),
            inputs=inputs,
            outputs=counted.outputs,
            ranges={**ranges, **counted.ranges},
            conditions=tuple(c for c in network.given if free_symbols(c) <= given),
            counts=counted.counts,
            waits=bool(network.counts),
            tensorrt=tensorrt,
            gpu=gpu,
        ),
    )


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


def _read_off(port: EngineInput) -> tuple[Expr, ...]:
    return port.dims if port.value is None else (port.value,)
