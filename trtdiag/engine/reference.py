"""The reference backend: an engine is the network itself, and PyTorch runs it on the CPU."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import torch

from trtdiag.engine.backend import Backend, Loaded, Profile
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.built_layers import LayerInfo
from trtdiag.engine.engine_bytes import Blob, file_of, kept, refuse_changed
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.profile_choice import ProfileChoice
from trtdiag.engine.profiles import usual_inputs
from trtdiag.errors import ArtifactError, UserError
from trtdiag.files.memory_map import MappedFile
from trtdiag.network import Network, Placed, from_bytes, to_json, to_parts
from trtdiag.network.aliased_outputs import written_inputs
from trtdiag.network.run import PreparedRun
from trtdiag.options import CompileOptions
from trtdiag.targets import Target

_TIMED_S = 5.0
"""Own choice: a second run of a large network on the CPU tells no more than this time is worth."""


@dataclass
class Borrowing:
    """Weights that engines may use in the place of their own, by key, and the engines that did."""

    weights: Mapping[str, torch.Tensor]
    runners: list[object] = field(default_factory=list)


_BORROWING: ContextVar[Borrowing | None] = ContextVar("borrowing", default=None)


@contextmanager
def borrowed_weights(networks: Iterable[Network]) -> Iterator[Borrowing]:
    """Engines in files that are loaded within use the weights of these networks where they are the same.

    Weights are the same by the digest of their bytes.  Networks share theirs with the program that they were made from:
    a comparison of the two then needs them once.  Who borrows lets these engines go at the end, for the program may
    be changed later.
    """
    found = Borrowing({key: each for one in networks for key, each in one.weights.items() if each.is_contiguous()})
    token = _BORROWING.set(found)
    try:
        yield found
    finally:
        _BORROWING.reset(token)


class _Run:
    """Runs one network; it keeps nothing of a call, so that several threads may call it.

    Attributes:
        file: What its weights are mapped from, where they are.
    """

    def __init__(self, network: Network, manifest: Manifest, file: MappedFile | None) -> None:
        self.file = file
        self._manifest = manifest
        self._run = PreparedRun(network, in_place=True, later=manifest.assumed)
        self._written = written_inputs(network)
        self._names = tuple(port.name for port in network.inputs)
        self._choice = ProfileChoice.of(manifest)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        if self.file is not None:
            refuse_changed([self.file])
        for name, tensor in zip(self._names, inputs, strict=True):
            if tensor.device.type != "cpu":
                raise UserError(
                    f"input {name!r} is on {tensor.device}",
                    because="the reference backend runs on the CPU and moves nothing",
                    fix="move the inputs and the program to the CPU, or compile with another backend",
                    reference="reference-device",
                )
        if self._choice is not None:
            self._choice(inputs)  # it refuses what no engine of TensorRT would take
        return _own_memory(self._run(inputs), self._written)

    def layers(self, network: Network, runs: int) -> tuple[LayerInfo, ...]:
        """The layers of the network that compute, where they are timed; untimed the network itself says all of it.

        Args:
            network: What the engine was built from.
            runs: How often to run it at its usual sizes, less often where that takes seconds.
        """
        if not runs:
            return ()
        took: list[list[float]] = [[] for _ in network.layers]
        began = time.perf_counter()
        inputs = usual_inputs(self._manifest, "cpu")
        self._run(inputs)  # what is found once is no work of a layer
        for done in range(runs):
            if done and time.perf_counter() - began > _TIMED_S:
                break
            ends = [time.perf_counter()]

            def note(*_: object, ends: list[float] = ends) -> None:
                ends.append(time.perf_counter())

            self._run(inputs, note)
            for times, (start, end) in zip(took, pairwise(ends), strict=True):
                times.append(end - start)
        timed = zip(network.layers, took, strict=True)
        return tuple(_info(placed, median(times) * 1000) for placed, times in timed if placed.layer.kind != "Constant")


def _info(placed: Placed, time_ms: float) -> LayerInfo:
    kind = placed.layer.kind
    return LayerInfo(f"{placed.origin.node} {kind}", kind, (placed.origin,), time_ms=time_ms)


class _Reference(Backend):
    """The reference backend."""

    name = "reference"
    device = "cpu"

    def require(self, target: Target) -> None:
        """Nothing: it builds for any target."""
        del target

    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch) -> Blob:
        """The bytes of the network; it runs for any sizes that the network takes."""
        del profile, options, target, watch
        return kept(lambda: to_parts(network), sum(weight.nbytes for weight in network.weights.values()))

    def load(self, blob: bytes | memoryview, manifest: Manifest) -> _Run:
        """The network of these bytes.

        Raises:
            ArtifactError: ``damaged-network``, ``other-network`` where it is not the one of the manifest.
        """
        file = file_of(blob)
        borrowing = None if file is None else _BORROWING.get()
        network = from_bytes(blob, {} if borrowing is None else borrowing.weights)
        own = [[kind.dtype.torch for kind in kinds] for kinds in (network.input_types, network.output_types)]
        said = [[port.dtype for port in ports] for ports in (manifest.inputs, manifest.outputs)]
        if own != said or written_inputs(network) != manifest.written:
            raise ArtifactError(
                "an engine is another one than its manifest says",
                because="its inputs or outputs are others",
                fix="load the program again from its file, or compile it again",
                reference="other-network",
            )
        made = _Run(network, manifest, file)
        if borrowing is not None:
            borrowing.runners.append(made)
        return made

    def refit(
        self, blob: bytes | memoryview, network: Network, manifest: Manifest, loaded: Loaded | None = None
    ) -> tuple[Blob, Loaded | None]:
        """The bytes of the network with its new weights; those of the old one are not looked at."""
        del blob, manifest, loaded
        return kept(lambda: to_parts(network), sum(weight.nbytes for weight in network.weights.values())), None

    def stripped(self, blob: bytes | memoryview, network: Network, manifest: Manifest) -> bytes:
        """Nothing: the network is said beside the engine."""
        del blob, network, manifest
        return b""

    def decisive(self, network: Network, options: CompileOptions) -> Mapping[str, object]:
        """The network as it is written into the engine, source lines included."""
        del options
        return {"network": hashlib.sha256(to_json(network).encode()).hexdigest()}


def backend() -> _Reference:
    """The backend, for the registry."""
    return _Reference()


def _own_memory(outputs: tuple[torch.Tensor, ...], written: Container[int]) -> tuple[torch.Tensor, ...]:
    """Outputs as an engine gives them: each row-major, in memory of its own or that of the input it was written to."""
    seen: set[int] = set()
    made = []
    for index, output in enumerate(outputs):
        if index in written:
            made.append(output)
            continue
        own = output.contiguous()
        if own.untyped_storage().data_ptr() in seen:
            own = own.clone()
        seen.add(own.untyped_storage().data_ptr())
        made.append(own)
    return tuple(made)
