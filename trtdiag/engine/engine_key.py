"""What decides over an engine's bytes, as one text: engines of equal texts can stand in for each other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from trtdiag import __version__
from trtdiag.engine.backend import Backend, Profile
from trtdiag.engine.profiles import parts_of
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.targets import Target


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
