"""What a backend is, and which one is taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

import torch

from trtdiag.engine.build_watch import Watch
from trtdiag.engine.engine_bytes import Blob
from trtdiag.engine.manifest import Manifest
from trtdiag.errors import PlatformError, UserError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.targets import Target, chosen_gpus, get_target, installed_rtx_version, installed_version

Profile = Mapping[str, tuple[DimProfile, ...]]
"""The sizes of each input by its name: one entry for each dim, and for a size one for its value."""

# A backend is a module with a function ``backend()``; adding one is adding that module and its line here.
_HOMES = {
    "reference": "trtdiag.engine.reference",
    "tensorrt": "trtdiag.engine.tensorrt.backend",
    "tensorrt-rtx": "trtdiag.engine.tensorrt.rtx",
    "inductor": "trtdiag.engine.inductor.backend",
}
BUILDERS = ("tensorrt", "tensorrt-rtx", "reference")
"""The backends that programs are compiled for; what the others run is in the place of one of their engines."""

INSTALL = "pip install tensorrt (tensorrt-cu12 or tensorrt-cu13 for a driver of CUDA 12 or 13)"
"""How to get TensorRT.  Source: NVIDIA TensorRT Installation Guide, "Python Package Index Installation"."""
INSTALL_RTX = "pip install tensorrt-rtx (the extra rtx of trtdiag)"
"""How to get TensorRT-RTX."""


@dataclass(frozen=True)
class BuiltBy:
    """What an engine that is built here needs to run; ``None`` for what it does not need.

    Attributes:
        tensorrt: The version of TensorRT.
        gpu: The name of the GPU.
        compute_capability: The GPU's (``9.0``).
    """

    tensorrt: str | None = None
    gpu: str | None = None
    compute_capability: str | None = None


class Runner(Protocol):
    """An engine that was loaded; several threads may call it at once."""

    def __call__(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The outputs for inputs of exactly the manifest's dtypes; sizes enter as tensors without dims on the CPU.

        Inputs whose memory outputs are (``Manifest.written``) are row-major and overlap no other input; they are
        written to, and the output is the given tensor.
        """


class Loaded(Protocol):
    """An engine in memory that nothing runs.

    Runners may have ``release()``: what it returns gives theirs, once the runner was let go, unless something runs it.
    """

    @property
    def device(self) -> torch.device:
        """Where it is."""

    def runner(self, manifest: Manifest) -> Runner:
        """What runs it."""


class Prepared(Protocol):
    """What runs an engine again for inputs like those of a run before.

    Runners may have ``prepared(inputs, given)``: ``given`` is what inputs were before casts.  Where what they give has
    ``casts``, it takes inputs like these, and casts them itself.
    """

    def __call__(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor] | None = None
    ) -> Sequence[torch.Tensor] | None:
        """The outputs; ``None`` where something is not as it was: then nothing has run."""

    def takes(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether it can write into these tensors."""


class Builds(Protocol):
    """Builds engines apart from this process."""

    def start(self) -> None:
        """Prepare for a build that will be asked for."""

    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch) -> Blob:
        """As ``Backend.build``."""

    def rest(self) -> None:
        """Let go of what is only needed while something is built."""


class Backend(ABC):
    """Builds engines and runs them; several threads may use it at once.

    What a backend does not say for itself is so where engines run on what they are built on.

    Attributes:
        name: Its name in the registry.
        device: The type of device that its engines run on (``cpu``, ``cuda``).
        builds: Whether programs are compiled for it.
        may_crash: Whether a build may end its process.
        builders: What builds in its place (``isolated_builds``); ``None``: it builds in this process.
    """

    name: str
    device: str
    builds = True
    may_crash = False
    builders: Builds | None = None

    @abstractmethod
    def require(self, target: Target) -> None:
        """Nothing, where engines for this target can be built here.

        Raises:
            PlatformError: What is missing, and how to get it.
        """

    def warm_up(self) -> None:  # noqa: B027  most have nothing to do
        """Do what takes a process time at its first build alone; a process that only builds does it before one comes.

        Raises:
            TrtdiagError: What a build would be refused for, too.
        """

    @abstractmethod
    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch) -> Blob:
        """The engine of a network; a ``bytearray`` or a file is taken as it is, without a copy.

        Args:
            network: What to build.
            profile: The sizes to build for.
            options: What the user asked for.
            target: The TensorRT version that the network was written for.
            watch: Is told how far the build is, and may ask for its end.

        Raises:
            EngineBuildError: The backend refuses the network.
        """

    @abstractmethod
    def load(self, blob: bytes | memoryview, manifest: Manifest) -> Runner:
        """The engine of these bytes, ready to run.

        Raises:
            ArtifactError: The bytes are damaged, or an engine that cannot run here.
        """

    def refit(
        self, blob: bytes | memoryview, network: Network, manifest: Manifest, loaded: Loaded | None = None
    ) -> tuple[Blob, Loaded | None]:
        """A refittable engine with other weights, also one without any; it can be refitted again.

        Args:
            blob: The engine.
            network: What it was built from, with the new weights.
            manifest: What the engine says of itself.
            loaded: The same engine in memory, where it is there and nothing runs it: it is changed, and must not be
                used where this raises.  It may still be at work on the GPU.

        Returns:
            Its bytes, and it in memory where it is there.

        Raises:
            ArtifactError: ``not-refittable``; ``engine-elsewhere`` where it was built for another TensorRT or GPU.
            PlatformError: ``refit-missing``: the backend cannot do that.
        """
        del blob, network, manifest, loaded
        raise _no_refit(self.name)

    def stripped(self, blob: bytes | memoryview, network: Network, manifest: Manifest) -> bytes:
        """A refittable engine without the weights that ``refit`` gives it; raises the same."""
        del blob, network, manifest
        raise _no_refit(self.name)

    def target(self, asked: str | None) -> Target:
        """The target of this version, or the one that it builds for where none is asked.

        Raises:
            UserError: ``unknown-target``.
        """
        return get_target(asked)

    def chosen_gpus(self, target: Target, asked: Sequence[str]) -> tuple[str, ...]:
        """The GPU generations to build for; none, where that is the GPU here.

        Raises:
            UserError: ``unknown-gpu``; ``wrong-option`` where it has none.
        """
        return chosen_gpus(target, asked)

    def cannot_run(self, gpus: Sequence[str]) -> str:
        """Why engines for these generations can be built here and not run, in words; empty where they can."""
        del gpus
        return ""

    def built_by(self) -> BuiltBy:
        """What engines built here need."""
        return BuiltBy()

    @abstractmethod
    def decisive(self, network: Network, options: CompileOptions) -> Mapping[str, object]:
        """What else decides over an engine's bytes, for JSON: beside what the network computes, its names and sizes.

        Raises:
            UserError: An option that the backend does not have.
        """

    def differences(self, manifest: Manifest) -> tuple[str, ...]:
        """What of this machine an engine cannot run on, in words; empty where it can run."""
        del manifest
        return ()


def get_backend(name: str | None) -> Backend:
    """The backend of a name; ``None``: TensorRT where it is installed and supported, else the reference.

    Raises:
        UserError: ``unknown-backend``.
        PlatformError: ``backend-missing``; says what is missing.
    """
    if name is None:
        name = "tensorrt" if not _missing("tensorrt") else "reference"
    if name not in _HOMES:
        raise UserError(
            f"there is no backend {name!r}",
            because=f"the backends are {', '.join(sorted(BUILDERS))}",
            fix="choose one of them",
            reference="unknown-backend",
        )
    missing = _missing(name)
    if missing:
        install = INSTALL_RTX if name == "tensorrt-rtx" else INSTALL
        raise PlatformError(
            f"the backend {name!r} cannot be used here",
            because=missing,
            fix=f"{install}, or use the backend 'reference', which runs anywhere",
            reference="backend-missing",
        )
    made: Backend = import_module(_HOMES[name]).backend()
    return made


def _no_refit(name: str) -> PlatformError:
    return PlatformError(
        f"the backend {name!r} gives engines no other weights",
        because="it has no way to do that",
        fix="compile the program with the new weights",
        reference="refit-missing",
    )


def refuse_as_builder(backend: Backend) -> None:
    """Pass backends that programs are compiled for.

    Raises:
        UserError: ``unknown-backend``: it only runs what is in the place of another one's engines.
    """
    if not backend.builds:
        raise UserError(
            f"programs are not compiled for the backend {backend.name!r}",
            because="it runs the segments that optimize='latency' gives to it",
            fix=f"choose {', '.join(BUILDERS)}, or 'auto'",
            reference="unknown-backend",
        )


def _missing(name: str) -> str:
    """What a backend lacks, in words; empty where it can be used."""
    home = _HOMES[name]
    package = home.rpartition(".")[0]
    if find_spec(package) is None or find_spec(home) is None:
        return f"this version of trtdiag has no module {home}"
    if name == "tensorrt" and installed_version() is None:
        return "the Python package tensorrt is not installed"
    if name == "tensorrt-rtx" and installed_rtx_version() is None:
        return "the Python package tensorrt-rtx is not installed"
    return ""
